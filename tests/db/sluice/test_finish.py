import psycopg
import pytest

from support import rows, value

FINISH = "select * from sluice.finish('orders', %s, %s, %s, '1 hour', %s)"
KEPT = "select msg_id, detail from sluice.result order by msg_id"


@pytest.mark.parametrize("is_archived", [True, False], ids=["archive", "delete"])
def test_a_done_message_has_its_result_kept(connection, claimed, is_archived):
    assert rows(connection, FINISH, [1], [1], '[{"width": 5}]', is_archived) == [(1, "done")]

    assert rows(connection, KEPT) == [(1, {"width": 5})]
    assert value(connection, "select count(*) from pgmq.q_orders") == 0
    assert value(connection, "select count(*) from pgmq.a_orders") == int(is_archived)


def test_results_are_kept_of_the_done_ones_only_in_the_order_given(connection, claimed):
    connection.execute("select pgmq.send_batch('orders', array['2', '3']::jsonb[])")
    connection.execute("select pgmq.read('orders', 30, 2)")

    outcomes = rows(connection, FINISH, [3, 9, 1, 2], [1, 1, 7, 1], '["c", "x", "a", "b"]', True)

    assert outcomes == [(3, "done"), (9, "gone"), (1, "stale"), (2, "done")]
    assert rows(connection, KEPT) == [(2, "b"), (3, "c")]


def test_a_repeated_call_keeps_the_first_result(connection, claimed):
    connection.execute(FINISH, [[1], [1], '["first"]', True])

    assert rows(connection, FINISH, [1], [1], '["second"]', True) == [(1, "gone")]
    assert rows(connection, KEPT) == [(1, "first")]


def test_rolled_back_call_keeps_neither_message_nor_result(database, connection, claimed):
    with database.connect(autocommit=False) as worker:
        worker.execute(FINISH, [[1], [1], "[1]", True])
        worker.rollback()

    assert rows(connection, KEPT) == []
    assert value(connection, "select count(*) from pgmq.q_orders") == 1


def test_a_message_of_another_time_is_gone(connection, claimed):
    call = "select outcome from sluice.finish('orders', '{1}', '{1}', '[1]', '1 hour', true, '{2020-01-01}')"

    assert value(connection, call) == "gone"
    assert rows(connection, KEPT) == []


def test_a_reader_may_finish_and_a_writer_may_not(database, connection, claimed, role):
    connection.execute(f"grant sluice_writer to {role}")
    with database.connect(user=role) as session:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(FINISH, [[1], [1], "[1]", True])
        connection.execute(f"grant sluice_reader to {role}")
        assert rows(session, FINISH, [1], [1], "[1]", True) == [(1, "done")]
