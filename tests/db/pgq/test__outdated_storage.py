"""pgq._outdated_storage: settings that differ from the release."""

from support import rows, value

OUTDATED = "select statement from pgq._outdated_storage(array(select queue_id from pgq.queue))"


def test_only_what_differs_is_outdated(connection):
    connection.execute("select pgq.create_queue('l')")
    assert (
        value(
            connection,
            "select count(*) from pgq._outdated_storage(array(select queue_id from pgq.queue))",
        )
        == 0
    )

    connection.execute("alter table pgq.event_1_0 set (autovacuum_enabled = on)")

    [(statement,)] = rows(connection, OUTDATED)
    assert "autovacuum_enabled = off" in statement
    connection.execute(statement)
    assert rows(connection, OUTDATED) == []
