import psycopg
import pytest

from support import rows, value


def test_a_binding_is_stored_with_the_regex_that_keys_are_matched_against(connection, queue):
    connection.execute("select pgmq.bind_topic('a-b.*.#', 'orders')")

    assert rows(
        connection, "select pattern, queue_name, compiled_regex from pgmq.topic_bindings"
    ) == [("a-b.*.#", "orders", r"^a-b\.[^.]+\..*$")]


def test_binding_twice_keeps_the_first(connection, queue):
    connection.execute("select pgmq.bind_topic('a', 'orders')")
    before = rows(connection, "select * from pgmq.topic_bindings")

    connection.execute("select pgmq.bind_topic(pattern => 'a', queue_name => 'orders')")

    assert rows(connection, "select * from pgmq.topic_bindings") == before


@pytest.mark.parametrize(
    ("pattern", "name", "message"),
    [
        ("a..b", "", "pattern cannot contain consecutive dots. Got: a..b"),
        ("a", "", "queue_name cannot be NULL or empty"),
        ("a", None, "queue_name cannot be NULL or empty"),
        ("a", "nope", 'Queue "nope" does not exist. Create the queue first using pgmq.create()'),
        (
            "a",
            "ORDERS",
            'Queue "ORDERS" does not exist. Create the queue first using pgmq.create()',
        ),
    ],
)
def test_a_bad_pattern_comes_before_a_bad_name_and_nothing_is_bound(
    connection, queue, pattern, name, message
):
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        connection.execute("select pgmq.bind_topic(%s, %s::text)", (pattern, name))

    assert caught.value.diag.message_primary == message
    assert caught.value.diag.message_hint
    assert value(connection, "select count(*) from pgmq.topic_bindings") == 0


def test_an_admin_binds_and_a_writer_may_only_look(connection, queue):
    connection.execute("set role sluice_admin")
    connection.execute("select pgmq.bind_topic('a', 'orders')")
    connection.execute("set role sluice_writer")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select pgmq.bind_topic('b', 'orders')")
    assert value(connection, "select count(*) from pgmq.list_topic_bindings()") == 1


def test_a_queue_dropped_while_it_is_bound_leaves_no_binding(database, connection, queue):
    with database.connect(autocommit=False) as dropping:
        dropping.execute("select pgmq.drop_queue('orders')")
        connection.execute("set lock_timeout = '100ms'")
        # The drop is uncommitted, so this session still sees the queue's row.
        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute("select pgmq.bind_topic('a', 'orders')")
        dropping.commit()

    assert value(connection, "select count(*) from pgmq.topic_bindings") == 0
