"""pgq._note_truncation: it repeats the check for pg_dump at the commit. See concurrency/test_dumps.py for its effect."""

from support import rows, value

NOTED = "select count(*) from pgq.truncation"


def test_a_transaction_is_noted_once_and_with_the_part_that_truncates(connection):
    with connection.transaction():
        with connection.transaction(force_rollback=True):
            connection.execute("select pgq._note_truncation()")
        assert value(connection, NOTED) == 0
        for _ in range(2):
            connection.execute("select pgq._note_truncation()")
        found = rows(connection, "select txid = pg_current_xact_id() from pgq.truncation")

    assert found == [(True,)]
    assert value(connection, NOTED) == 1


def test_only_a_lock_for_truncating_is_noted(connection):
    connection.execute("create table one ()")
    with connection.transaction():
        assert value(
            connection, "select pgq._lock_tables('{one}'::regclass[], 'share update exclusive', 0)"
        )
    assert value(connection, NOTED) == 0

    with connection.transaction():
        assert value(
            connection, "select pgq._lock_tables('{one}'::regclass[], 'access exclusive', 0)"
        )
    assert value(connection, NOTED) == 1


def test_a_role_that_maintains_needs_no_rights_on_the_table(connection, role):
    connection.execute(f"grant pgq_admin to {role}")
    connection.execute(f"set role {role}")

    connection.execute("select pgq._note_truncation()")

    connection.execute("reset role")
    assert value(connection, NOTED) == 1
