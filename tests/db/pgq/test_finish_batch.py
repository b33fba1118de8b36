from support import rows, value
from support.log import consume_all, tick


def test_finishing_moves_the_consumer_behind_the_batch(connection, consumer):
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    assert value(connection, "select pgq.finish_batch(x_batch_id => %s)", batch) == 1

    assert rows(
        connection, "select last_tick, current_batch, next_tick from pgq.get_consumer_info()"
    ) == [(2, None, None)]
    assert value(connection, "select pgq.next_batch('changes', 'lake')") is None


def test_a_batch_that_is_not_open_is_0_and_a_warning(connection, consumer):
    warnings = []
    connection.add_notice_handler(lambda d: warnings.append((d.severity, d.message_primary)))

    assert value(connection, "select pgq.finish_batch(4711)") == 0

    assert warnings == [("WARNING", "finish_batch: batch 4711 not found")]


def test_finished_with_the_consumers_own_writes_or_not_at_all(connection, consumer):
    connection.execute("create table effect (ev_id bigint)")
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    with connection.transaction(force_rollback=True):
        connection.execute(
            "insert into effect select ev_id from pgq.get_batch_events(%s)", (batch,)
        )
        connection.execute("select pgq.finish_batch(%s)", (batch,))

    assert value(connection, "select count(*) from effect") == 0
    assert consume_all(connection) == [[1]]
