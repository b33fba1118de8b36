import pytest

from support import value

CALL = "select pgq._is_ahead(%s::pg_snapshot)"


def test_snapshots_of_this_server_are_not_ahead(database, connection):
    with database.connect(autocommit=False) as running:
        running.execute("select pg_current_xact_id()")
        before = value(connection, "select pg_current_snapshot()::text")
        connection.execute("select pg_current_xact_id()")
        assert value(connection, CALL, before) is False
        running.commit()
    assert value(connection, CALL, before) is False


@pytest.mark.parametrize("snapshot", ["9000000000:9000000010:", "10:9000000010:"])
def test_a_snapshot_with_ids_of_the_future_is_ahead(connection, snapshot):
    assert value(connection, CALL, snapshot) is True


def test_a_snapshot_that_saw_the_end_of_what_runs_is_ahead(database, connection):
    with database.connect(autocommit=False) as running:
        txid = int(value(running, "select pg_current_xact_id()::text"))
        connection.execute("select pg_current_xact_id()")
        assert value(connection, CALL, f"{txid}:{txid + 1}:{txid}") is False
        assert value(connection, CALL, f"{txid + 1}:{txid + 1}:") is True
