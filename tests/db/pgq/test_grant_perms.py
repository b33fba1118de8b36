import psycopg
import pytest

from support import value


def test_it_returns_1_and_gives_roles_their_rights_back(connection, log, role):
    connection.execute(f"grant pgq_reader to {role}")
    connection.execute("revoke select on pgq.event_1_0 from pgq_reader")

    assert value(connection, "select pgq.grant_perms('changes')") == 1

    assert value(connection, "select has_table_privilege(%s, 'pgq.event_1_0', 'select')", role)


def test_grants_on_the_template_apply_to_new_and_existing_logs(connection, log, role):
    try:
        connection.execute(f"grant select on pgq.event_template to {role} with grant option")
        connection.execute("select pgq.create_queue('later')")
        connection.execute("select pgq.grant_perms('changes')")

        for table in ("pgq.event_1", "pgq.event_1_0", "pgq.event_2_2"):
            assert value(
                connection,
                "select has_table_privilege(%s, %s, 'select with grant option')",
                role,
                table,
            )
    finally:
        connection.execute(f"drop owned by {role}")


def test_an_unknown_log_is_an_error(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.grant_perms('missing')")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ001",
        "Queue not found",
    )
