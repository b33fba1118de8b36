"""The tables and sequences of event logs, by the catalog."""

from support import rows, value


def test_relations_of_one_log_are_found(connection):
    connection.execute("select pgq.create_queue('l'), pgq.create_queue('other')")
    queue_id = value(connection, "select queue_id from pgq.queue where queue_name = 'l'")

    found = rows(
        connection,
        "select kind, count(*) from pgq._log_relations(array[%s::integer]) group by kind order by kind",
        queue_id,
    )

    assert found == [
        ("event ids", 1),
        ("event segment", 3),
        ("events", 1),
        ("tick ids", 1),
        ("tick segment", 3),
        ("ticks", 1),
    ]
