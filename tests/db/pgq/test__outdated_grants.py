"""pgq._outdated_grants: grants that differ from the release."""

from support import rows, value

OUTDATED = "select statement from pgq._outdated_grants(array(select queue_id from pgq.queue))"


def test_only_what_differs_is_outdated(connection):
    connection.execute("select pgq.create_queue('l')")
    assert (
        value(
            connection,
            "select count(*) from pgq._outdated_grants(array(select queue_id from pgq.queue))",
        )
        == 0
    )

    connection.execute("revoke insert (ev_data) on pgq.event_1_0 from sluice_writer")

    [(statement,)] = rows(connection, OUTDATED)
    assert "grant insert" in statement
    connection.execute(statement)
    assert rows(connection, OUTDATED) == []
