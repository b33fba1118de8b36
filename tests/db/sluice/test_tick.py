import psycopg
import pytest

from support import rows, value


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('changes')")


def insert(connection):
    connection.execute("select pgq.insert_event('changes', 't', 'd')")


def ticks(connection):
    return rows(connection, "select * from sluice.tick()")


def test_new_events_tick_at_once_and_nothing_new_does_not(connection, log):
    assert ticks(connection) == []
    insert(connection)

    assert ticks(connection) == [("changes", 2)]
    assert [ticks(connection) for _ in range(4)] == [[]] * 4
    insert(connection)
    assert ticks(connection) == [("changes", 3)]


def test_numbers_that_were_rolled_back_are_counted_by_one_tick_when_the_log_is_settled(
    connection, log
):
    with connection.transaction(force_rollback=True):
        insert(connection)

    assert [ticks(connection) for _ in range(4)] == [[], [("changes", 2)], [], []]
    assert value(connection, "select ev_new from pgq.get_queue_info('changes')") == 0


def test_a_commit_after_the_tick_that_counted_it_is_new(database, connection, log):
    with database.connect(autocommit=False) as late, database.connect(autocommit=False) as later:
        insert(late)
        insert(later)
        insert(connection)
        assert ticks(connection) == [("changes", 2)]
        assert [ticks(connection) for _ in range(4)] == [[]] * 4
        late.commit()
        assert ticks(connection) == [("changes", 3)]
        assert [ticks(connection) for _ in range(4)] == [[]] * 4
        later.commit()

    assert ticks(connection) == [("changes", 4)]
    assert [ticks(connection) for _ in range(4)] == [[]] * 4


def test_a_settled_log_costs_a_look_at_its_sequence(connection, log):
    insert(connection)
    while value(connection, "select current_setting('sluice.settled_1', true)") != "1":
        ticks(connection)
    connection.execute("drop function pgq.event_1_any(pg_snapshot, pg_snapshot)")

    assert ticks(connection) == []
    warnings = []
    connection.add_notice_handler(lambda d: warnings.append(d.message_primary))
    insert(connection)
    assert ticks(connection) == []
    assert "event_1_any" in warnings[0]


@pytest.mark.parametrize("column", ["queue_external_ticker", "queue_ticker_paused"])
def test_logs_that_are_not_to_be_ticked_are_left_out(connection, log, column):
    connection.execute(f"update pgq.queue set {column} = true")
    insert(connection)

    assert ticks(connection) == []


def test_log_ticked_by_another_session_is_skipped(database, connection, log):
    with database.connect(autocommit=False) as other:
        insert(connection)
        other.execute("select sluice.log_tick('changes')")
        assert ticks(connection) == []


def test_a_log_that_cannot_be_ticked_does_not_stop_the_others(connection, log):
    connection.execute("select pgq.create_queue('a restored one')")
    connection.execute(
        "update pgq.tick set tick_snapshot = '9000000000:9000000010:' where tick_queue = 2"
    )
    insert(connection)
    connection.execute("select pgq.insert_event('a restored one', 't', 'd')")
    warnings = []
    connection.add_notice_handler(lambda d: warnings.append(d.message_primary))

    assert ticks(connection) == [("changes", 2)]

    assert len(warnings) == 1
    assert warnings[0].startswith("event log a restored one is not ticked: Invalid PgQ state")


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_an_old_snapshot_is_refused(connection, log, level):
    connection.execute(f"set default_transaction_isolation = '{level}'")
    with pytest.raises(psycopg.Error) as caught:
        ticks(connection)
    assert caught.value.sqlstate == "PQ004"
