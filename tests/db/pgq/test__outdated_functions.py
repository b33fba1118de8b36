"""pgq._outdated_functions: functions that differ from the release."""

from support import rows, value

OUTDATED = "select statement from pgq._outdated_functions(array(select queue_id from pgq.queue))"


def test_only_what_differs_is_outdated(connection):
    connection.execute("select pgq.create_queue('l')")
    assert (
        value(
            connection,
            "select count(*) from pgq._outdated_functions(array(select queue_id from pgq.queue))",
        )
        == 0
    )

    connection.execute("grant execute on function pgq.event_1_any to public")

    [(statement,)] = rows(connection, OUTDATED)
    assert "revoke execute" in statement
    connection.execute(statement)
    assert rows(connection, OUTDATED) == []
