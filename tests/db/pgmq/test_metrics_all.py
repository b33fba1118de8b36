from support import rows


def test_every_queue_by_name(connection):
    for name in ("b", "a"):
        connection.execute("select pgmq.create(%s)", (name,))
    connection.execute("select pgmq.send('b', '{}'::jsonb)")

    assert rows(connection, "select queue_name, queue_length from pgmq.metrics_all()") == [
        ("a", 0),
        ("b", 1),
    ]


def test_one_broken_queue_does_not_hide_the_others(connection):
    for name in ("a", "b"):
        connection.execute("select pgmq.create(%s)", (name,))
    connection.execute("drop table pgmq.q_a")
    warnings = []
    connection.add_notice_handler(lambda diagnostic: warnings.append(diagnostic.message_primary))

    assert rows(connection, "select queue_name from pgmq.metrics_all()") == [("b",)]

    assert warnings == ["queue a skipped: it has no table"]
