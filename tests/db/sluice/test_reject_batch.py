"""sluice.reject: events of an open batch are dead-lettered for its consumer."""

import psycopg
import pytest

from support import rows, value
from support.log import coop_next, error_of, ids, move_retries, tick
from support.share_groups import make_log

REJECT = """select sluice.reject(%s, jsonb_build_array(jsonb_build_object(
    'ev_id', %s::bigint, 'reason', 'bad', 'error_type', 'KeyError', 'error', 'no x', 'trace', 'at line 1'
)), 'w')"""
SHORT = "select sluice.reject(%s, %s)"


@pytest.fixture
def batch(connection):
    """An open batch of the consumer `lake` of the log `changes`, with the events 1 and 2."""
    make_log(connection)
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    connection.execute(
        "select pgq.insert_event('changes', 't', n::text, 'a', null, '', 'e') from generate_series(1, 2) as n"
    )
    tick(connection)
    return next_batch(connection)


def next_batch(connection, consumer="lake"):
    return value(connection, "select pgq.next_batch('changes', %s)", consumer)


def finish(connection, batch):
    assert value(connection, "select pgq.finish_batch(%s)", batch) == 1


def redrive(connection):
    """Redrive the dead letters of `lake`; return the new ids."""
    query = "select msg_id from sluice.redrive('changes', 'lake')"
    return [msg_id for (msg_id,) in rows(connection, query)]


def test_an_event_is_dead_lettered_with_all_its_fields(connection, batch):
    ((ev_time, ev_txid),) = rows(
        connection, "select ev_time, ev_txid::text from pgq.event_template where ev_id = 2"
    )

    assert value(connection, REJECT, batch, 2) == 1

    ((letter,),) = rows(connection, "select to_jsonb(d) from sluice.dead_letter_event as d")
    assert value(connection, "select %s::timestamptz = %s", letter.pop("enqueued_at"), ev_time)
    assert value(connection, "select %s::timestamptz <= clock_timestamp()", letter.pop("dead_at"))
    assert letter.pop("ev_txid") == ev_txid
    assert {name: field for name, field in letter.items() if field is not None} == {
        "dead_letter_id": 1, "queue_name": "changes", "consumer_name": "lake", "msg_id": 2,
        "ev_type": "t", "ev_data": "2", "ev_extra1": "a", "ev_extra3": "", "ev_extra4": "e",
        "redriven": 0, "attempts": 1, "read_ct": 1, "reason": "bad", "error_type": "KeyError", "error": "no x",
        "trace": "at line 1", "worker": "w",
    }  # fmt: skip


def test_a_repetition_returns_0_and_keeps_the_first(connection, batch):
    assert value(connection, SHORT, batch, '[{"ev_id": 2, "reason": "first"}]') == 1
    assert value(connection, SHORT, batch, '[{"ev_id": 2, "reason": "second"}]') == 0
    assert value(connection, REJECT, batch, 1) == 1

    found = rows(connection, "select msg_id, reason from sluice.dead_letter order by 1")
    assert found == [(1, "bad"), (2, "first")]


def test_several_events_are_dead_lettered_in_one_call_or_none(connection, batch):
    refused = error_of(connection, SHORT, batch, '[{"ev_id": 1}, {"ev_id": 7}]')
    assert refused == ("22023", "event not found")
    assert value(connection, "select count(*) from sluice.dead_letter") == 0

    assert value(connection, SHORT, batch, '[{"ev_id": 2, "reason": "r"}, {"ev_id": 1}]') == 2
    found = rows(connection, "select msg_id, reason, error from sluice.dead_letter order by 1")
    assert found == [(1, "rejected", None), (2, "r", None)]


def test_the_batch_stays_open_and_is_finished_as_usual(connection, batch):
    connection.execute(REJECT, (batch, 1))

    assert ids(connection, batch) == [1, 2]
    finish(connection, batch)
    assert next_batch(connection) is None
    assert value(connection, "select count(*) from sluice.dead_letter") == 1


def test_a_rolled_back_rejection_leaves_no_dead_letter(database, connection, batch):
    with database.connect(autocommit=False) as session:
        assert value(session, REJECT, batch, 1) == 1
        session.rollback()

    assert value(connection, "select count(*) from sluice.dead_letter") == 0


def test_a_retried_event_has_the_number_of_its_attempts(connection, batch):
    connection.execute("select pgq.event_retry(%s, 2, 0)", (batch,))
    finish(connection, batch)
    assert move_retries(connection) == 1
    tick(connection)
    again = next_batch(connection)
    assert ids(connection, again) == [2]

    assert value(connection, REJECT, again, 2) == 1
    assert rows(connection, "select msg_id, attempts, read_ct from sluice.dead_letter") == [
        (2, 2, 2)
    ]


def test_a_batch_that_is_not_open_is_refused(connection, batch):
    finish(connection, batch)

    for missing in (batch, 4711):
        assert error_of(connection, REJECT, missing, 1) == ("PQ003", "batch not found")
    assert value(connection, "select count(*) from sluice.dead_letter") == 0


def test_an_event_that_the_batch_does_not_have_is_refused(connection, batch):
    connection.execute("select pgq.insert_event('changes', 't', 'later')")

    for missing in (3, 4711, 0, None):
        assert error_of(connection, REJECT, batch, missing) == ("22023", "event not found")
    assert value(connection, "select count(*) from sluice.dead_letter") == 0


def test_an_event_that_another_consumer_retries_is_refused(connection, batch):
    connection.execute("select pgq.register_consumer('changes', 'audit')")
    connection.execute("select pgq.event_retry(%s, 2, 0)", (batch,))
    finish(connection, batch)
    move_retries(connection)
    tick(connection)
    of_lake, of_audit = next_batch(connection), next_batch(connection, "audit")

    assert error_of(connection, REJECT, of_audit, 2) == ("22023", "event not found")
    assert value(connection, REJECT, of_lake, 2) == 1


def test_dead_letter_of_a_subconsumer_is_that_of_its_main_consumer(connection, batch):
    finish(connection, batch)
    connection.execute("select pgq.insert_event('changes', 't', '3')")
    connection.execute("select pgq_coop.register_subconsumer('changes', 'lake', 'one')")
    tick(connection)
    of_member = coop_next(connection, "one")
    assert ids(connection, of_member) == [3]

    assert value(connection, REJECT, of_member, 3) == 1

    finish(connection, of_member)
    found = rows(connection, "select queue_name, consumer_name, msg_id from sluice.dead_letter")
    assert found == [("changes", "lake", 3)]
    assert redrive(connection) == [4]
    tick(connection)
    assert ids(connection, coop_next(connection, "one")) == [4]


def test_redriven_event_is_delivered_to_its_consumer_only_with_attempts_reset(connection, batch):
    connection.execute("select pgq.register_consumer('changes', 'audit')")
    connection.execute("select sluice.create_group('changes', 'g')")
    connection.execute("select pgq.event_retry(%s, 2, 0)", (batch,))
    finish(connection, batch)
    move_retries(connection)
    tick(connection)
    batch = next_batch(connection)
    ((ev_time,),) = rows(connection, "select ev_time from pgq.event_template where ev_retry = 1")
    connection.execute(REJECT, (batch, 2))
    finish(connection, batch)

    (ev_id,) = redrive(connection)

    tick(connection)
    batch = next_batch(connection)
    columns = (
        "ev_id, ev_time, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
    )
    assert rows(connection, f"select {columns} from pgq.get_batch_events(%s)", batch) == [
        (ev_id, ev_time, None, "t", "2", "a", None, "", "e")
    ]
    of_others = []
    while (other := next_batch(connection, "audit")) is not None:
        of_others += ids(connection, other)
        finish(connection, other)
    assert of_others == []
    assert rows(connection, "select ev_id from sluice.claim('changes', 'g', 10)") == []
    # It is a new event, so it can fail again.
    assert value(connection, REJECT, batch, ev_id) == 1
    assert rows(connection, "select msg_id, attempts from sluice.dead_letter") == [(ev_id, 1)]


def test_readers_of_logs_reject_events_and_writers_and_monitors_do_not(
    connection, batch, as_member
):
    query = f"""select sluice.reject({batch}, '[{{"ev_id": 1}}]')"""

    for member_of in ("pgq_reader", "pgq_admin", "sluice_reader", "sluice_admin"):
        assert as_member(member_of, query) == [(1,)]
    for member_of in ("pgq_writer", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)


def test_admins_of_logs_redrive_and_purge_what_a_consumer_rejected(connection, batch, as_member):
    connection.execute(REJECT, (batch, 1))

    redriven = "select msg_id from sluice.redrive('changes', 'lake')"
    assert as_member("pgq_admin", redriven) == [(3,)]
    purged = "select sluice.purge_dead_letters('changes', 'lake', '0')"
    assert as_member("pgq_admin", purged) == [(1,)]
    for query in (redriven, purged):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member("pgq_reader", query)


def test_dead_letter_of_a_log_that_was_dropped_does_not_stand_for_a_new_event(connection, batch):
    assert value(connection, REJECT, batch, 1) == 1
    connection.execute("select pgq.drop_queue('changes', true)")
    make_log(connection)
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    connection.execute("select pgq.insert_event('changes', 't', 'new')")
    tick(connection)

    assert value(connection, REJECT, next_batch(connection), 1) == 1
    found = rows(connection, "select msg_id, ev_data from sluice.dead_letter order by 1, 2")
    assert found == [(1, "1"), (1, "new")]


@pytest.mark.slow
def test_rejection_reads_none_of_the_other_dead_letters_without_statistics(
    connection, batch, buffers
):
    connection.execute(
        "insert into sluice.dead_letter (queue_name, consumer_name, msg_id, read_ct, enqueued_at, reason) "
        "select 'changes', 'lake', -n, 1, now(), 'r' from generate_series(1, 50000) as n"
    )

    assert buffers(f"""select sluice.reject({batch}, '[{{"ev_id": 1}}]')""") < 200
