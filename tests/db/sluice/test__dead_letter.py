"""sluice._dead_letter: rejected events of a share group."""

import pytest

from support import rows, value


@pytest.fixture
def group(connection):
    """The log `events` with an event and the share group `g`."""
    connection.execute("select pgq.create_queue('events')")
    connection.execute("select sluice.create_group('events', 'g')")
    connection.execute("select pgq.insert_event('events', 't', 'd', 'a', null, null, 'e')")
    return connection


def reject(connection):
    claim = value(connection, "select claim_id from sluice.claim('events', 'g')")
    connection.execute(
        "select sluice.acknowledge('events', 'g', %s, 'reject', null, null, 'trace', 'bad')",
        (claim,),
    )
    return claim


def test_it_has_all_fields_of_the_event(group):
    ev_time, ev_txid = rows(group, "select ev_time, ev_txid::text from pgq.event_template")[0]
    claim = reject(group)

    ((letter,),) = rows(group, "select to_jsonb(d) from sluice.dead_letter_event as d")

    assert value(group, "select %s::timestamptz = %s", letter.pop("enqueued_at"), ev_time)
    assert value(group, "select %s::timestamptz <= clock_timestamp()", letter.pop("dead_at"))
    assert letter.pop("ev_txid") == ev_txid
    assert {name: field for name, field in letter.items() if field is not None} == {
        "dead_letter_id": 1, "queue_name": "events", "consumer_name": "g", "claim_id": claim, "msg_id": 1,
        "ev_type": "t", "ev_data": "d", "ev_extra1": "a", "ev_extra4": "e",
        "redriven": 0, "attempts": 1, "read_ct": 1, "reason": "bad", "error": "trace",
    }  # fmt: skip


def test_it_is_there_only_if_the_transaction_that_decides_it_commits(database, group):
    with database.connect(autocommit=False) as session:
        reject(session)
        assert value(session, "select count(*) from sluice.dead_letter") == 1
        session.rollback()

    assert value(group, "select count(*) from sluice.dead_letter") == 0
