from support import rows, value
from support.queue_options import set_queue_options

KEYS = "select key from sluice.idempotency_key order by key"


def removed(connection, keys_max=10_000):
    """Return the reported number of removed keys."""
    steps = rows(connection, "select * from sluice._maintain_keys(%s)", keys_max)
    if not steps:
        return 0
    ((task, queue_name, done, detail),) = steps
    assert (task, queue_name, done) == ("keys", None, True)
    assert detail.endswith("the next call goes on") == (int(detail.split()[0]) == keys_max)
    return int(detail.split()[0])


def fill(connection):
    """Add five expired keys and one valid key to a logged and to an unlogged queue."""
    for name, kind in (("orders", "create"), ("fast", "create_unlogged")):
        connection.execute(f"select pgmq.{kind}('{name}')")
        set_queue_options(connection, name, deduplication_window="1 hour")
        connection.execute(f"select sluice.send('{name}', '1', '{name} holds')")
        connection.execute(
            f"select sluice.send('{name}', '1', '{name} ' || n) from generate_series(1, 5) as n"
        )
    connection.execute(
        "update sluice.deduplication_key set expires_at = now() - right(key, 1)::int * interval '1 min' where key !~ 'holds'"
    )


def test_keys_whose_time_is_over_are_removed_oldest_first_in_bounded_steps(connection):
    fill(connection)

    assert removed(connection, 4) == 4
    assert [key for (key,) in rows(connection, KEYS)] == [
        "fast 1", "fast 2", "fast 3", "fast holds", "orders 1", "orders 2", "orders 3", "orders holds",
    ]  # fmt: skip
    assert removed(connection, 4) == 4
    assert removed(connection, 4) == 2
    assert removed(connection) == 0
    assert [key for (key,) in rows(connection, KEYS)] == ["fast holds", "orders holds"]


def test_keys_of_queues_that_are_gone_go_when_their_time_is_over(connection):
    fill(connection)
    connection.execute("select pgmq.drop_queue('orders')")
    set_queue_options(connection, "fast", deduplication_window=None)

    assert removed(connection) == 10
    connection.execute("update sluice.deduplication_key set expires_at = now()")
    assert removed(connection) == 2


def test_two_at_once_share_the_work_and_do_not_wait(database, connection):
    fill(connection)
    with database.connect(autocommit=False) as first, database.connect() as second:
        second.execute("set lock_timeout = '100ms'")

        assert removed(first, 4) == 4
        assert removed(second) == 6


def test_a_key_that_is_being_sent_anew_is_left_alone(database, connection):
    fill(connection)
    with database.connect(autocommit=False) as sender, database.connect() as second:
        second.execute("set lock_timeout = '100ms'")
        msg_id = value(sender, "select sluice.send('orders', '2', 'orders 5')")

        assert removed(second) == 9
        sender.commit()

    assert value(connection, "select sluice.send('orders', '3', 'orders 5')") == msg_id


def test_many_keys_are_removed_by_index(connection):
    fill(connection)
    connection.execute(
        "insert into sluice.deduplication_key (kind, is_unlogged, incarnation, key, expires_at) "
        "select 'message', false, 99, n::text, now() + interval '1 h' from generate_series(1, 50000) as n"
    )
    connection.execute(
        "insert into sluice.inbox (kind, handler, key, expires_at) "
        "select 'handler', 'mailer', 'n' || n, now() + interval '1 h' from generate_series(1, 50000) as n"
    )
    connection.execute("analyze sluice.idempotency_key")
    scans = "select sum(seq_scan) from pg_stat_user_tables where relname in ('deduplication_key_logged', 'inbox')"
    connection.execute("select pg_stat_force_next_flush()")
    before = value(connection, scans)

    assert removed(connection, 4) == 4

    connection.execute("select pg_stat_force_next_flush()")
    assert value(connection, scans) == before


def test_keys_of_handlers_and_sinks_are_removed_in_the_same_order(connection):
    fill(connection)
    connection.execute("delete from sluice.deduplication_key where key <> 'orders 3'")
    connection.execute("select sluice.once('mailer', n::text) from generate_series(1, 5) as n")
    connection.execute("select sluice.once('mailer', 'holds')")
    connection.execute("select sluice.sink_commit('kept', 1), sluice.sink_commit('sink', 1)")
    connection.execute(
        "update sluice.inbox set expires_at = now() - key::int * interval '1 min' where key <> 'holds'"
    )
    connection.execute(
        "update sluice.sink_commit set expires_at = now() - interval '270 s' where key = 'sink'"
    )

    assert removed(connection, 5) == 5
    assert [key for (key,) in rows(connection, KEYS)] == ["1", "2", "holds", "kept"]
    (step,) = rows(connection, "select * from sluice.maintain()")
    assert step == ("keys", None, True, "2 expired keys removed")
    assert rows(connection, "select * from sluice.maintain()") == []


def test_key_that_a_handler_records_anew_is_left_alone(database, connection):
    connection.execute("select sluice.once('mailer', n::text) from generate_series(1, 2) as n")
    connection.execute("update sluice.inbox set expires_at = now()")
    with database.connect(autocommit=False) as handler, database.connect() as second:
        second.execute("set lock_timeout = '100ms'")
        assert value(handler, "select sluice.once('mailer', '1')") is True

        assert removed(second) == 1
        handler.commit()

    assert rows(connection, KEYS) == [("1",)]


def test_an_admin_may_run_it(connection):
    fill(connection)
    connection.execute("set role sluice_admin")

    assert removed(connection) == 10
