"""sluice.notifier_queues: all queues, with the sequences of their ids."""

from __future__ import annotations

from support import rows

QUEUES = "select queue_name, id_sequence::regclass::text from sluice.notifier_queues()"


def test_every_queue_comes_by_name_with_the_sequence_of_its_ids(connection):
    connection.execute("select pgmq.create('b'), pgmq.create('c'), pgmq.create_unlogged('a')")
    connection.execute("select pgmq.enable_notify_insert('b')")  # has a second sequence, for its vt

    assert rows(connection, QUEUES) == [
        ("a", "pgmq.q_a_msg_id_seq"),
        ("b", "pgmq.q_b_msg_id_seq"),
        ("c", "pgmq.q_c_msg_id_seq"),
    ]


def test_a_queue_without_a_sequence_of_its_own_is_there_without_one(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("alter table pgmq.q_orders alter msg_id drop identity")

    assert rows(connection, QUEUES) == [("orders", None)]


def test_a_queue_whose_table_is_gone_is_left_out(connection):
    connection.execute("select pgmq.create('orders'), pgmq.create('gone')")
    connection.execute("drop table pgmq.q_gone")

    assert rows(connection, QUEUES) == [("orders", "pgmq.q_orders_msg_id_seq")]
