from support import rows


def test_queues_come_by_name(connection):
    for name in ("b", "a", "C"):
        connection.execute("select pgmq.create(%s)", (name,))

    listed = rows(
        connection,
        "select queue_name, is_partitioned, is_unlogged, created_at is not null from pgmq.list_queues()",
    )

    assert sorted(listed) == [
        ("C", False, False, True),
        ("a", False, False, True),
        ("b", False, False, True),
    ]
    assert listed == rows(
        connection, "select queue_name, false, false, true from pgmq.meta order by queue_name"
    )
