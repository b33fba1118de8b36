import psycopg
import pytest

from support import rows, value


@pytest.fixture
def replay_id(orders):
    return value(orders, "select sluice.start_replay('orders', 'again')")


def go_on(connection, replay_id, qty):
    return rows(connection, "select * from sluice.continue_replay(%s, %s)", replay_id, qty)[0]


def test_each_step_sends_at_most_max_count_and_counts_them(orders, replay_id):
    assert go_on(orders, replay_id, 3) == (3, 3, False)
    assert go_on(orders, replay_id, 3) == (1, 4, True)
    assert go_on(orders, replay_id, 3) == (0, 4, True)
    assert rows(orders, "select msg_id, message -> 'n' from pgmq.q_again order by 1") == [
        (1, 1), (2, 2), (3, 3), (4, 4),
    ]  # fmt: skip


def test_a_step_that_is_rolled_back_is_done_by_the_next(orders, replay_id):
    with orders.transaction(force_rollback=True):
        assert go_on(orders, replay_id, 3) == (3, 3, False)

    assert go_on(orders, replay_id, 9) == (4, 4, True)
    assert value(orders, "select count(*) from pgmq.q_again") == 4


def test_messages_that_are_gone_meanwhile_are_left_out(orders, replay_id):
    assert go_on(orders, replay_id, 1) == (1, 1, False)
    orders.execute("delete from pgmq.a_orders where msg_id in (1, 2)")

    assert go_on(orders, replay_id, 9) == (2, 3, True)


@pytest.mark.slow
def test_a_step_in_a_large_archive_costs_what_it_sends(large, buffers):
    large.execute("select pgmq.create('again')")
    replay_id = value(large, "select sluice.start_replay('large', 'again')")
    whole = value(large, "select pg_relation_size('pgmq.a_large') / 8192")

    assert go_on(large, replay_id, 50_000) == (50_000, 50_000, False)
    assert buffers(f"select * from sluice.continue_replay({replay_id}, 100)") < 700 < whole


@pytest.mark.parametrize("qty", [0, -1, None])
def test_a_step_of_nothing_is_refused(orders, replay_id, qty):
    with pytest.raises(psycopg.Error) as caught:
        go_on(orders, replay_id, qty)

    assert caught.value.sqlstate == "22023"


def test_an_unknown_replay_is_named_and_one_goes_with_its_queue(orders, replay_id):
    orders.execute("select pgmq.drop_queue('again')")

    with pytest.raises(psycopg.Error) as caught:
        go_on(orders, replay_id, 1)

    assert caught.value.sqlstate == "P0002"
    assert caught.value.diag.message_primary == f"replay {replay_id} does not exist"
