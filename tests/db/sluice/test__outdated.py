"""sluice._outdated: objects that differ from the release."""

from support import rows, value

OUTDATED = "select statement from sluice._outdated()"


def test_only_what_differs_is_outdated(connection):
    connection.execute("select pgmq.create('q')")
    assert value(connection, "select count(*) from sluice._outdated()") == 0

    connection.execute("comment on function pgmq.q_q is 'mine'")

    [(statement,)] = rows(connection, OUTDATED)
    assert "comment on function" in statement
    connection.execute(statement)
    assert rows(connection, OUTDATED) == []
