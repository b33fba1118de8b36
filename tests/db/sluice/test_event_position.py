"""sluice.event_position: where an event or a time is in a log."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value

AFTER = (
    "select (select min(b.ev_id) from sluice.browse_events('log', p.ev_txid, p.ev_id) as b) "
    "from sluice.event_position('log', moment => %s) as p"
)


@pytest.mark.parametrize("group", [False, True], ids=["no share group", "share group"])
def test_event_is_found_with_its_transaction(log: psycopg.Connection, group):
    if group:
        log.execute("select sluice.create_group('log', 'g')")
    expected = value(log, "select ev_txid::text from pgq.event_1 where ev_id = 17")

    found = rows(log, "select ev_txid::text, ev_id from sluice.event_position('log', 17)")

    assert found == [(expected, 17)]


def test_missing_event_has_no_position(log: psycopg.Connection):
    for ev_id in (0, 41, -1):
        assert rows(log, f"select ev_txid, ev_id from sluice.event_position('log', {ev_id})") == [
            (None, None)
        ]


def test_events_after_a_time_are_those_after_the_last_tick_before_it(log: psycopg.Connection):
    times = [
        at for (at,) in rows(log, "select tick_time from pgq.tick where tick_queue = 1 order by 1")
    ]

    assert [value(log, AFTER, at) for at in times] == [1, 11, 21, 31, None]
    assert value(log, AFTER, "2000-01-01Z") == 1
    assert value(log, AFTER, "infinity") is None


def test_ticks_are_found_with_few_lookups(log: psycopg.Connection, buffers):
    log.execute(
        "insert into pgq.tick_1_0 (tick_queue, tick_id, tick_time, tick_snapshot, tick_event_seq) "
        "select 1, n, now() + make_interval(secs => n), pg_current_snapshot(), 40 from generate_series(6, 50000) as n"
    )
    log.execute("select setval('pgq.event_1_tick_seq', 50000)")

    query = "select * from sluice.event_position('log', moment => now() + interval '25000 s')"
    assert buffers(query) < 300


def test_one_of_event_and_time_is_required(log: psycopg.Connection):
    for arguments in ("'log'", "'log', 1, now()"):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            log.execute(f"select * from sluice.event_position({arguments})")


def test_readers_find_positions(log: psycopg.Connection, as_member):
    for arguments in ("'log', 3", "'log', moment => now()"):
        query = f"select ev_txid from sluice.event_position({arguments})"
        assert as_member("sluice_reader", query) != [(None,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member("sluice_monitor", query)
