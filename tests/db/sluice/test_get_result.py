import psycopg
import pytest

from support import rows, value

GET = "select state, result, expires_at is not null, error_type, error from sluice.get_result('orders', %s)"
FINISH = "select * from sluice.finish('orders', '{1}', '{1}', %s, '1 hour', %s)"


def state(connection, msg_id=1):
    return rows(connection, GET, msg_id)[0]


def waits(name):
    return (name, None, False, None, None)


def test_a_message_that_is_not_done_has_its_state(connection, claimed):
    assert state(connection) == waits("running")

    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    assert state(connection) == waits("waiting")

    connection.execute("select pgmq.send('orders', '2'::jsonb, delay => 60)")
    assert state(connection, 2) == waits("waiting")

    connection.execute(
        'select * from sluice.fail(\'orders\', \'[{"msg_id": 1, "read_ct": 1, "delay": 60}]\')'
    )
    assert state(connection) == waits("retrying")


@pytest.mark.parametrize("is_archived", [True, False], ids=["archived", "deleted"])
@pytest.mark.parametrize("result", ["null", '{"a": [1]}'])
def test_a_done_message_has_its_result_until_it_expires(connection, claimed, is_archived, result):
    connection.execute(FINISH, [f"[{result}]", is_archived])
    assert state(connection) == (
        "done",
        value(connection, f"select '{result}'::jsonb"),
        True,
        None,
        None,
    )

    connection.execute("update sluice.result set expires_at = clock_timestamp()")
    assert state(connection) == waits("done" if is_archived else "gone")


def test_a_dead_letter_has_its_error(connection, claimed):
    connection.execute("select sluice.reject('orders', 1, 1, 'no address')")
    assert state(connection) == ("dead", None, False, None, "no address")


def test_a_failed_message_has_the_error_of_its_last_attempt(connection, claimed):
    failure = '[{"msg_id": 1, "read_ct": 1, "reject": true, "reason": "gave up", "error_type": "KeyError", "error": "id"}]'
    connection.execute("select * from sluice.fail('orders', %s)", [failure])

    assert state(connection) == ("dead", None, False, "KeyError", "id")


def test_a_message_that_was_never_sent_or_deleted_is_gone(connection, claimed):
    connection.execute("select pgmq.delete('orders', 1)")

    assert state(connection) == state(connection, 99) == waits("gone")


def test_a_queue_that_is_created_again_has_no_results(connection, claimed):
    connection.execute(FINISH, ["[1]", True])
    connection.execute("select pgmq.drop_queue('orders'), pgmq.create('orders')")
    assert state(connection) == waits("gone")

    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    assert state(connection) == waits("waiting")


def test_a_queue_without_table_is_an_error(connection):
    with pytest.raises(psycopg.errors.UndefinedTable):
        state(connection)


def test_a_reader_sees_results_and_a_writer_does_not(database, connection, claimed, role):
    connection.execute(FINISH, ["[1]", False])
    connection.execute(f"grant sluice_writer to {role}")
    with database.connect(user=role) as session:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            state(session)
        connection.execute(f"grant sluice_reader to {role}")
        assert state(session)[:2] == ("done", 1)


def test_dead_letter_of_a_dropped_queue_is_not_that_of_a_queue_created_again(connection, claimed):
    connection.execute("select sluice.reject('orders', 1, 1, 'no address')")
    connection.execute("select pgmq.drop_queue('orders')")
    connection.execute("select pgmq.create('orders')")
    assert state(connection) == waits("gone")

    connection.execute("select pgmq.send('orders', '1')")
    connection.execute("select pgmq.read('orders', 9, 1)")
    connection.execute("select sluice.reject('orders', 1, 1, 'no name')")

    assert state(connection) == ("dead", None, False, None, "no name")
