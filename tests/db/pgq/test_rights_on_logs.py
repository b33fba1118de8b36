import psycopg
import pytest

from support import rows

STATEMENTS = {
    "insert": "select pgq.insert_event('changes', 't', 'd')",
    "register": "select pgq.register_consumer('changes', 'mine')",
    "read events": "select count(*) from pgq.event_1_0",
    "tick": "select pgq.ticker('changes')",
    "create": "select pgq.create_queue('other')",
    "copy": "insert into pgq.event_1_0 (ev_type, ev_data) values ('t', 'd')",
    "write by hand": "insert into pgq.event_1_0 (ev_id, ev_time) values (100, now())",
    "info": "select queue_name from pgq.get_queue_info()",
}
ALLOWED = {
    "sluice_writer": {"insert", "copy", "info"},
    "sluice_reader": {"register", "read events", "info"},
    "sluice_admin": {
        "insert",
        "register",
        "read events",
        "tick",
        "create",
        "copy",
        "write by hand",
        "info",
    },
    "sluice_monitor": {"info"},
    None: {"info"},  # in PgQ, every role may read positions and settings
}
ALLOWED |= {f"pgq_{kind}": ALLOWED[f"sluice_{kind}"] for kind in ("writer", "reader", "admin")}


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("member_of", ALLOWED)
def test_each_role_may_do_what_is_its_own_and_nothing_else(
    connection, log, role, member_of, statement
):
    if member_of:
        connection.execute(f"grant {member_of} to {role}")
    with connection.transaction(force_rollback=True):
        connection.execute(f"set local role {role}")
        if statement in ALLOWED[member_of]:
            connection.execute(STATEMENTS[statement])
        else:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(STATEMENTS[statement])


def test_functions_that_run_as_their_owner_are_not_a_superusers(connection):
    owners = rows(
        connection,
        """select distinct r.rolname, r.rolsuper from pg_proc as p join pg_roles as r on r.oid = p.proowner
           where p.pronamespace in ('pgmq'::regnamespace, 'pgq'::regnamespace, 'sluice'::regnamespace)""",
    )
    assert owners == [("sluice_owner", False)]
