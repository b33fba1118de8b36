"""pgq._lock_tables, and pgq._locked_by for tables."""

from support import rows, value

LOCK = "select pgq._lock_tables('{one, two}'::regclass[], 'access exclusive', %s)"


def test_all_or_none_are_locked_and_the_setting_is_as_before(database, connection):
    connection.execute("create table one (); create table two (); set lock_timeout = '7s'")
    with database.connect(autocommit=False) as other:
        other.execute("lock table two in access share mode")
        with connection.transaction():
            for wait_ms in (0, 20):
                assert value(connection, LOCK, wait_ms) is False
                assert value(connection, "show lock_timeout") == "7s"
            assert rows(connection, "select pgq._locked_by('{one, two}'::regclass[]::oid[])") == [
                (f"locked by pid {other.info.backend_pid}",)
            ]
        other.rollback()

    with connection.transaction():
        assert value(connection, LOCK, 20) is True
        assert value(connection, "select pgq._locked_by('{one, two}'::regclass[]::oid[])") is None
        assert (
            value(connection, "select count(*) from pg_locks where mode = 'AccessExclusiveLock'")
            >= 2
        )
