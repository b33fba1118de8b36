import psycopg
import pytest

from support import rows, value


def test_drop_takes_queue_archive_and_row(connection, queue):
    connection.execute("select pgmq.send('orders', '{}'::jsonb)")

    assert value(connection, "select pgmq.drop_queue('orders')") is True

    assert rows(connection, "select relname from pg_class where relname like '%%orders%%'") == []
    assert value(connection, "select to_regproc('pgmq.q_orders')") is None, (
        "the reader function remains"
    )
    assert value(connection, "select count(*) from pgmq.meta") == 0


@pytest.mark.parametrize("create", ["create", "create_unlogged", "create_partitioned"])
def test_dropping_a_queue_of_any_kind_raises_no_notice(connection, create):
    connection.execute("set client_min_messages = notice")
    connection.execute(f"select pgmq.{create}('parts')")
    notices = []
    connection.add_notice_handler(lambda diagnostic: notices.append(diagnostic.message_primary))

    assert value(connection, "select pgmq.drop_queue('parts')") is True

    assert notices == []
    query = "select proname from pg_proc where pronamespace = 'pgmq'::regnamespace and proname ~ 'parts'"
    assert rows(connection, query) == []


@pytest.mark.parametrize("name", ["missing", None])
def test_a_queue_that_is_not_there_is_a_notice_and_false(connection, name):
    notices = []
    connection.add_notice_handler(lambda diagnostic: notices.append(diagnostic.message_primary))

    assert value(connection, "select pgmq.drop_queue(%s::text)", name) is False

    assert notices == [f"pgmq queue `{name or '<NULL>'}` does not exist"]


def test_a_name_in_other_case_does_not_destroy_the_queue(connection, queue):
    connection.execute("select pgmq.send('orders', '{}'::jsonb)")

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgmq.drop_queue('ORDERS')")

    assert caught.value.sqlstate == "QU002"
    assert (
        caught.value.diag.message_primary
        == "queue 'ORDERS' is not dropped: its table belongs to queue 'orders'"
    )
    assert value(connection, "select count(*) from pgmq.q_orders") == 1


@pytest.mark.parametrize("name", ["orders", "missing"])
def test_the_deprecated_form_warns_and_is_always_true(connection, queue, name):
    warnings = []
    connection.add_notice_handler(
        lambda diagnostic: (
            diagnostic.severity == "WARNING" and warnings.append(diagnostic.message_primary)
        )
    )

    assert value(connection, "select pgmq.drop_queue(%s, true)", name) is True

    assert warnings == [
        "drop_queue(queue_name, partitioned) is deprecated and will be removed in PGMQ v2.0. "
        "Use drop_queue(queue_name) instead"
    ]


def test_its_bindings_go_with_it_and_those_of_other_queues_stay(connection, queue):
    connection.execute("select pgmq.create_unlogged('fast')")
    for name in ("orders", "fast"):
        connection.execute("select pgmq.bind_topic('a.#', %s)", (name,))

    assert value(connection, "select pgmq.drop_queue('fast')") is True

    assert rows(connection, "select queue_name from pgmq.list_topic_bindings()") == [("orders",)]
    assert value(connection, "select pgmq.send_topic('a.b', '1'::jsonb)") == 1


def test_the_deprecated_form_refuses_a_name_before_it_warns(connection):
    notices = []
    connection.add_notice_handler(notices.append)

    with pytest.raises(psycopg.errors.RaiseException, match="invalid characters"):
        connection.execute("select pgmq.drop_queue('a;b', true)")

    assert notices == []
