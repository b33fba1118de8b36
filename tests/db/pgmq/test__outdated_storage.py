"""pgmq._outdated_storage: settings that differ from the release."""

from support import rows, value

OUTDATED = "select statement from pgmq._outdated_storage(array['pgmq.q_q'::regclass::oid])"


def test_only_what_differs_is_outdated(connection):
    connection.execute("select pgmq.create('q')")
    assert (
        value(
            connection,
            "select count(*) from pgmq._outdated_storage(array['pgmq.q_q'::regclass::oid])",
        )
        == 0
    )

    connection.execute(
        "alter table pgmq.q_q reset (autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay)"
    )

    [(statement,)] = rows(connection, OUTDATED)
    assert "autovacuum_vacuum_threshold = 1000" in statement
    connection.execute(statement)
    assert rows(connection, OUTDATED) == []
