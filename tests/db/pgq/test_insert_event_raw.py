import psycopg
import pytest

from support import rows, value

CALL = "select pgq.insert_event_raw('changes', %s, %s, %s, %s, 't', 'd', null, null, null, null)"


def test_every_field_is_the_callers(connection, log):
    assert value(connection, CALL, 77, "2026-01-02 03:04:05+00", 5, 2) == 77

    assert rows(
        connection,
        "select ev_id, ev_time = '2026-01-02 03:04:05+00', ev_owner, ev_retry from pgq.event_1_0",
    ) == [(77, True, 5, 2)]


def test_nulls_mean_the_next_id_and_now(connection, log):
    assert value(connection, CALL, None, None, None, None) == 1
    assert value(connection, "select ev_time is not null from pgq.event_1_0") is True


def test_an_event_with_an_id_of_its_own_is_seen_by_the_ticker(connection, log):
    connection.execute(CALL, (77, None, None, None))

    assert value(connection, "select ev_new from pgq.get_queue_info('changes')") == 1


def test_a_closed_log_takes_events_only_from_replication(connection, log):
    connection.execute("update pgq.queue set queue_disable_insert = true")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(CALL, (None, None, None, None))
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ004",
        "Insert into queue disallowed",
    )

    connection.execute("set session_replication_role = replica")
    assert isinstance(value(connection, CALL, None, None, None, None), int)
