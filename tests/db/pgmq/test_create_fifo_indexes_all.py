from support import value


def test_every_queue_gets_its_index_and_one_without_a_table_is_left_out(connection):
    for name in ("broken", "one", "Two"):
        connection.execute("select pgmq.create(%s)", [name])
    connection.execute("drop table pgmq.q_broken")
    notices = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))

    connection.execute("select pgmq.create_fifo_indexes_all()")

    assert notices == ["queue broken skipped: it has no table"]
    assert value(connection, "select pgmq._has_fifo_index('q_one')")
    assert value(connection, "select pgmq._has_fifo_index('q_two')")
