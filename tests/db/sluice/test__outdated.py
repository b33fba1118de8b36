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


def test_a_queue_and_a_log_created_by_a_session_that_quotes_all_names_are_current(database):
    with database.connect(options="-c quote_all_identifiers=on") as connection:
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgq.create_queue('events')")

    with database.connect() as connection:
        assert connection.execute("select * from sluice._outdated()").fetchall() == []
