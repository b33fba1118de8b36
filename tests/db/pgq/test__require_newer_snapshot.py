import psycopg
import pytest

from support import value


def test_a_snapshot_behind_the_last_tick_is_refused_and_the_log_named(connection, log):
    connection.execute("select pgq._require_newer_snapshot(1)")
    connection.execute("update pgq.tick set tick_snapshot = '9000000000:9000000010:'")

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq._require_newer_snapshot(1)")

    assert caught.value.sqlstate == "PQ004"
    assert caught.value.diag.message_primary.startswith(
        "Invalid PgQ state: old xmin=9000000000, old xmax=9000000010, cur txid="
    )
    assert "event log 'changes'" in caught.value.diag.message_detail


def test_equal_snapshot_of_a_tick_is_accepted(connection, log):
    connection.execute("update pgq.tick set tick_snapshot = pg_current_snapshot()")

    assert value(connection, "select pgq._require_newer_snapshot(1)") == ""
