"""Queue functions under their PGMQ 0.20 names."""

import pytest

from support import rows, value


def test_create_makes_a_queue_of_pgmq_and_twice_does_no_harm(legacy):
    legacy.execute("select pgmq_create('orders'), pgmq_create_non_partitioned('plain')")

    assert rows(legacy, "select queue_name, is_partitioned from pgmq.meta order by 1") == [
        ("orders", False),
        ("plain", False),
    ]


def test_list_queues_is_by_name(legacy):
    legacy.execute("select pgmq_create('b'), pgmq_create('a')")

    listed = rows(legacy, "select queue_name, created_at = now() from pgmq_list_queues()")

    assert [name for name, _ in listed] == ["a", "b", "orders"]


def test_metrics_have_the_columns_of_then(legacy):
    legacy.execute("select pgmq_send_batch('orders', array['1', '2']::jsonb[])")
    legacy.execute("select pgmq_create('empty')")
    columns = (
        "queue_name, queue_length, newest_msg_age_sec >= 0, oldest_msg_age_sec >= 0, total_messages"
    )

    assert rows(legacy, f"select {columns} from pgmq_metrics('orders')") == [
        ("orders", 2, True, True, 2)
    ]
    assert rows(legacy, f"select {columns} from pgmq_metrics_all()") == [
        ("empty", 0, None, None, 0),
        ("orders", 2, True, True, 2),
    ]
    assert (
        value(legacy, "select scrape_time <= clock_timestamp() from pgmq_metrics('orders')") is True
    )


def test_drop_queue_says_whether_there_was_one(legacy):
    assert value(legacy, "select pgmq_drop_queue('orders', true)") is True
    assert value(legacy, "select pgmq_drop_queue('orders')") is False


@pytest.mark.slow
def test_create_partitioned_hands_its_arguments_on(legacy):
    legacy.execute("select pgmq_create_partitioned('parts', '100', '1000')")
    assert value(legacy, "select pgmq_send('parts', '1')") == 1
