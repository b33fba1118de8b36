import pytest

from support import rows, value


@pytest.fixture
def three(connection, queue):
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")


@pytest.mark.parametrize("vt", ["60", "clock_timestamp() + interval '60 s'"])
def test_one_message_gets_a_new_time_and_keeps_its_count(connection, three, vt):
    changed = rows(
        connection,
        f"select msg_id, read_ct, last_read_at, round(extract(epoch from vt - clock_timestamp())) from pgmq.set_vt('orders', 2, {vt})",
    )

    assert changed == [(2, 0, None, 60)]
    assert rows(connection, "select msg_id from pgmq.read('orders', 30, 9)") == [(1,), (3,)]


@pytest.mark.parametrize("vt", ["60", "clock_timestamp() + interval '60 s'"])
def test_a_batch_comes_back_sorted_and_once(connection, three, vt):
    assert rows(
        connection, f"select msg_id from pgmq.set_vt('orders', array[3, 9, 1, 3], {vt})"
    ) == [(1,), (3,)]
    assert rows(connection, "select msg_id from pgmq.read('orders', 30, 9)") == [(2,)]


def test_zero_makes_a_claimed_message_visible_again(connection, three):
    connection.execute("select pgmq.read('orders', 30, 3)")

    connection.execute("select pgmq.set_vt('orders', 2, 0)")

    assert rows(connection, "select msg_id, read_ct from pgmq.read('orders', 30, 9)") == [(2, 2)]


def test_unknown_ids_are_no_rows(connection, three):
    assert rows(connection, "select * from pgmq.set_vt('orders', 9, 5)") == []
    assert rows(connection, "select * from pgmq.set_vt('orders', '{}'::bigint[], 5)") == []
    assert value(connection, "select count(*) from pgmq.read('orders', 30, 9)") == 3
