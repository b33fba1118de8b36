import psycopg

from conftest import Database
from support import value

HOLDER = "select sluice._pipeline_holder(%s, %s)"
KEY = "select sluice._pipeline_key(%s, %s)"


def test_session_with_the_lock_is_the_holder(connection: psycopg.Connection, database: Database):
    key = value(connection, KEY, 1, "c")
    with database.connect() as other:
        value(other, "select pg_advisory_lock(%s)", key)
        value(other, "select pg_advisory_lock(%s)", value(connection, KEY, 2, "d"))

        assert value(connection, HOLDER, 1, "c") == other.info.backend_pid
        assert value(connection, HOLDER, 2, "c") is None
        assert value(connection, HOLDER, 1, "d") is None


def test_keys_differ_by_log_and_consumer(connection: psycopg.Connection):
    pairs = [(1, "c"), (2, "c"), (1, "d"), (12, "c"), (1, "2/c")]

    assert len({value(connection, KEY, *pair) for pair in pairs}) == len(pairs)
