"""Message functions under their PGMQ 0.20 names, with 0.20's columns and results."""

import time

import pytest

from support import rows, value


@pytest.fixture
def three(legacy):
    legacy.execute("select pgmq_send_batch('orders', array['1', '2', '3']::jsonb[])")
    return legacy


@pytest.mark.slow
def test_a_message_is_sent_read_and_archived(legacy):
    assert value(legacy, "select pgmq_send('orders', '{\"n\": 1}')") == 1

    assert rows(legacy, "select msg_id, read_ct, message from pgmq_read('orders', 30, 5)") == [
        (1, 1, {"n": 1})
    ]
    assert rows(legacy, "select * from pgmq_read('orders', 30, 5)") == []
    assert value(legacy, "select pgmq_archive('orders', 1)") is True
    assert rows(legacy, "select msg_id from pgmq.a_orders") == [(1,)]


def test_arguments_are_found_by_their_names(three):
    assert rows(
        three, """select msg_id from pgmq_read(queue_name => 'orders', vt => 0, "limit" => 2)"""
    ) == [(1,), (2,)]
    assert rows(
        three,
        "select msg_id from pgmq_set_vt(queue_name => 'orders', msg_id => 2, vt_offset => 60)",
    ) == [(2,)]


def test_delayed_message_is_hidden_for_its_delay(legacy):
    assert rows(
        legacy, "select msg_id from pgmq_send_batch('orders', array['1', '2']::jsonb[], 60)"
    ) == [(1,), (2,)]

    assert rows(legacy, "select * from pgmq_read('orders', 30, 5)") == []
    assert value(legacy, "select min(vt - enqueued_at) >= '60 s' from pgmq.q_orders") is True


def test_pop_takes_one_and_deletes_it(three):
    assert rows(three, "select msg_id, read_ct, message from pgmq_pop('orders')") == [(1, 0, 1)]
    assert value(three, "select count(*) from pgmq.q_orders") == 2


@pytest.mark.slow
def test_set_vt_returns_the_message_as_it_is_then(three):
    [(msg_id, is_later)] = rows(
        three,
        "select msg_id, vt > clock_timestamp() + interval '50 s' from pgmq_set_vt('orders', 2, 60)",
    )

    assert (msg_id, is_later) == (2, True)
    assert rows(three, "select msg_id from pgmq_read('orders', 30, 5)") == [(1,), (3,)]


@pytest.mark.parametrize("name", ["delete", "archive"])
def test_missing_message_returns_false_with_a_warning(three, warnings, name):
    assert value(three, f"select pgmq_{name}('orders', 7)") is False
    assert value(three, f"select pgmq_{name}('orders', array[7, 8])") is False
    assert value(three, f"select pgmq_{name}('orders', 1)") is True
    assert value(three, f"select pgmq_{name}('orders', array[2, 7])") is True

    assert warnings == [
        "no message found with msg_id: 7",
        "no message found with msg_ids: {7,8}",
    ]
    assert rows(three, "select msg_id from pgmq.q_orders") == [(3,)]


def test_deleted_is_gone_and_archived_is_kept(three):
    assert value(three, "select pgmq_delete('orders', array[1])") is True
    assert value(three, "select pgmq_archive('orders', array[2])") is True

    assert rows(three, "select msg_id from pgmq.a_orders") == [(2,)]


def test_polling_returns_what_is_there_at_once_also_without_time_to_wait(three):
    assert rows(three, "select msg_id from pgmq_read_with_poll('orders', 30, 2, 0)") == [(1,), (2,)]
    assert rows(three, "select msg_id from pgmq_read_with_poll('orders', 30, 2)") == [(3,)]


@pytest.mark.slow
def test_polling_waits_for_a_message_and_no_longer(database, three):
    three.execute("select pgmq_read('orders', 60, 5)")
    three.execute("select pgmq_set_vt('orders', 2, 1)")

    began = time.monotonic()
    assert rows(three, "select msg_id from pgmq_read_with_poll('orders', 60, 2, 20, 20)") == [(2,)]
    assert time.monotonic() - began < 15
    assert rows(three, "select msg_id from pgmq_read_with_poll('orders', 60, 2, 1, 20)") == []
