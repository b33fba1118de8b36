"""Which messages may have killed the process that started them."""

from support import rows


def unanswered(connection, *msg_ids):
    query = "select * from sluice.unfinished_attempts('Q', %s)"
    return [msg_id for (msg_id,) in rows(connection, query, list(msg_ids))]


def test_unfinished_attempts_neither_failed_nor_were_released(connection):
    connection.execute("select pgmq.create('q')")
    connection.execute("select pgmq.send_batch('q', array['1', '2', '3', '4']::jsonb[])")
    connection.execute("select pgmq.read('q', 0, 4)")  # the first start is not recorded
    connection.execute("""select sluice.fail('q', '[{"msg_id": 2, "read_ct": 1, "delay": 0}]')""")
    connection.execute("select sluice.release('q', '{3}', '{1}', is_attempt => false)")

    assert unanswered(connection, 4, 3, 2, 1) == [4, 1]

    connection.execute("select pgmq.read('q', 0, 4)")
    connection.execute("select sluice.begin_attempts('q', '{2, 4}', '{2, 2}', 'w')")

    assert unanswered(connection, 1, 2, 3, 4) == [1, 2, 4]
