"""sluice.notifier_pulse: leadership of notifiers, and the last ids of queues."""

from __future__ import annotations

from support import rows, value, wait_until

IS_LEADER = "select is_leader from sluice.notifier_pulse(%s, %s::interval, '{}')"


def pulse(connection, *queue_names):
    sequences = [f"pgmq.q_{name}_msg_id_seq" for name in queue_names]
    return rows(
        connection,
        "select is_leader, last_ids, abs(extract(epoch from server_time - clock_timestamp())) < 10 "
        "from sluice.notifier_pulse(1, '1 s', %s::text[]::regclass[]::oid[])",
        sequences,
    )[0]


def test_notifier_active_within_the_standby_time_stays_leader(connection):
    assert value(connection, IS_LEADER, 1, "1 h") is True
    assert value(connection, IS_LEADER, 2, "1 h") is False
    assert value(connection, IS_LEADER, 1, "1 h") is True


def test_another_leads_when_the_leader_has_not_looked_for_that_long(connection):
    assert value(connection, IS_LEADER, 1, "1 h") is True

    wait_until(lambda: value(connection, IS_LEADER, 2, "0.2 s"), "the second notifier to lead")

    assert value(connection, IS_LEADER, 1, "1 h") is False


def test_pulse_is_refused_during_a_concurrent_pulse(database, connection):
    with database.connect(autocommit=False) as other:
        assert value(other, IS_LEADER, 1, "0 s") is True
        assert value(connection, IS_LEADER, 2, "0 s") is False
        other.rollback()

    assert value(connection, IS_LEADER, 2, "0 s") is True


def test_pulse_recorded_by_a_fast_clock_blocks_no_notifier(connection):
    connection.execute(
        "select setval('sluice.notifier_turn', "
        "(floor(extract(epoch from clock_timestamp() + '1 h') * 100)::bigint << 23) | 1)"
    )

    assert value(connection, IS_LEADER, 2, "1 h") is True


def test_the_ids_come_in_the_order_asked_for_and_null_before_the_first(connection):
    connection.execute("select pgmq.create('a'), pgmq.create('b'), pgmq.create('c')")
    connection.execute("select pgmq.send_batch('b', array['1', '2']::jsonb[])")
    connection.execute("select pgmq.send('c', '1')")

    assert pulse(connection, "c", "a", "b") == (True, [1, None, 2], True)


def test_a_send_shows_before_it_commits(database, connection):
    connection.execute("select pgmq.create('a')")
    with database.connect(autocommit=False) as sender:
        sender.execute("select pgmq.send('a', '1')")

        assert pulse(connection, "a") == (True, [1], True)


def test_a_queue_that_is_gone_has_no_id(connection):
    connection.execute("select pgmq.create('a'), pgmq.create('b')")
    connection.execute("select pgmq.send('b', '1')")
    oids = rows(
        connection, "select array_agg(id_sequence order by 1) from sluice.notifier_queues()"
    )[0][0]
    connection.execute("select pgmq.drop_queue('a')")

    ids = value(
        connection,
        "select last_ids from sluice.notifier_pulse(1, '1 s', %s::bigint[]::oid[])",
        oids,
    )

    assert sorted(ids, key=str) == [1, None]


def test_queue_being_dropped_does_not_block_the_pulse(database, connection):
    connection.execute("select pgmq.create('a'), pgmq.create('b')")
    with database.connect(autocommit=False) as dropper:
        dropper.execute("select pgmq.drop_queue('a')")

        connection.execute("set statement_timeout = '10 s'")
        assert pulse(connection, "a", "b") == (True, None, True)


def test_a_round_that_finds_nothing_writes_nothing(database, connection):
    connection.execute("select pgmq.create('a')")
    with database.connect(autocommit=False) as notifier:
        assert pulse(notifier, "a") == (True, [None], True)
        rows(notifier, "select * from sluice.notifier_poll('{a}', '{null}', '{null}')")

        assert value(notifier, "select pg_current_xact_id_if_assigned()") is None


def test_a_reader_may_run_a_notifier(database, connection, role):
    connection.execute("select pgmq.create('a')")
    connection.execute(f"grant sluice_reader to {role}")
    with database.connect(user=role) as reader:
        assert rows(reader, "select count(*) from sluice.notifier_queues()") == [(1,)]
        assert pulse(reader, "a") == (True, [None], True)
        look = "select queue_name from sluice.notifier_poll('{a}', '{null}', '{null}')"
        assert rows(reader, look) == [("a",)]
        assert value(reader, "select sluice.notifier_wake('{a}')") == 1
