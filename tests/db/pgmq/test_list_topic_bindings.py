from support import rows


def test_bindings_come_latest_first_then_by_pattern_and_queue(connection):
    for name in ("b", "a"):
        connection.execute("select pgmq.create(%s)", (name,))
    connection.execute("select pgmq.bind_topic('y', 'a')")
    with connection.transaction():  # the same time for all bindings
        for pattern, name in (("x", "b"), ("x", "a"), ("w", "b")):
            connection.execute("select pgmq.bind_topic(%s, %s)", (pattern, name))
    columns = "pattern, queue_name, compiled_regex"

    assert rows(connection, f"select {columns} from pgmq.list_topic_bindings()") == [
        ("w", "b", "^w$"),
        ("x", "a", "^x$"),
        ("x", "b", "^x$"),
        ("y", "a", "^y$"),
    ]
    assert rows(connection, f"select {columns} from pgmq.list_topic_bindings('a')") == [
        ("x", "a", "^x$"),
        ("y", "a", "^y$"),
    ]
    assert rows(connection, "select * from pgmq.list_topic_bindings('A')") == []


def test_a_binding_is_dated(connection, queue):
    connection.execute("select pgmq.bind_topic('y', 'orders')")

    cursor = connection.execute("select * from pgmq.list_topic_bindings('orders')")

    assert [column.name for column in cursor.description] == [
        "pattern", "queue_name", "bound_at", "compiled_regex",
    ]  # fmt: skip
    assert rows(
        connection,
        "select clock_timestamp() - bound_at < '30 s' from pgmq.list_topic_bindings()",
    ) == [(True,)]
