import psycopg
import pytest

from support import rows, value


def test_dropping_leaves_nothing(connection, log):
    connection.execute("select pgq.insert_event('changes', 't', 'd')")

    assert value(connection, "select pgq.drop_queue('changes')") == 1

    assert rows(connection, "select relname from pg_class where relname ~ '^event_[0-9]'") == []
    assert value(connection, "select count(*) from pgq.tick") == 0
    assert value(connection, "select pgq.create_queue('changes')") == 1


def test_a_log_with_consumers_is_dropped_only_by_force(connection, consumer):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.drop_queue('changes')")
    assert caught.value.diag.message_primary == "cannot drop queue, consumers still attached"
    assert "lake" in caught.value.diag.message_detail

    assert value(connection, "select pgq.drop_queue('changes', true)") == 1
    assert value(connection, "select count(*) from pgq.consumer") == 0


def test_an_unknown_log_is_an_error(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.drop_queue('missing', true)")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ001",
        "No such event queue",
    )


def test_another_log_whose_id_begins_alike_is_untouched(connection):
    for number in range(1, 12):
        connection.execute("select pgq.create_queue(%s)", (f"log{number}",))

    connection.execute("select pgq.drop_queue('log1')")

    assert (
        value(
            connection,
            "select to_regclass('pgq.event_11_0') is not null and to_regclass('pgq.event_1_0') is null",
        )
        is True
    )
