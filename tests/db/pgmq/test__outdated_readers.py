"""pgmq._outdated_readers: functions that differ from the release."""

from support import rows, value

OUTDATED = "select statement from pgmq._outdated_readers(array['q'])"


def test_only_what_differs_is_outdated(connection):
    connection.execute("select pgmq.create('q')")
    assert value(connection, "select count(*) from pgmq._outdated_readers(array['q'])") == 0

    connection.execute("alter function pgmq.q_q reset enable_seqscan")

    [(statement,)] = rows(connection, OUTDATED)
    assert "create or replace" in statement
    connection.execute(statement)
    assert rows(connection, OUTDATED) == []
