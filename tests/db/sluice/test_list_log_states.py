"""sluice.list_log_states: figures of logs by name."""

from __future__ import annotations

import psycopg

from support import rows

STATES = "select log_name, newest_ev_id, ev_new, last_tick_id, consumers, groups, is_paused from sluice.list_log_states(%s)"


def test_figures_of_each_log_are_returned(log: psycopg.Connection):
    log.execute("select pgq.create_queue('b'), pgq.register_consumer('log', 'c')")
    log.execute("select sluice.create_group('log', 'g')")
    log.execute("select pgq.insert_event('log', 't', 'd')")
    log.execute("select pgq.set_queue_config('b', 'ticker_paused', 'true')")

    assert rows(log, STATES % "") == [
        ("b", 0, 0, 1, 0, 0, True),
        ("log", 41, 1, 5, 1, 1, False),
    ]
    ((at, per_s, size),) = rows(
        log,
        "select last_tick_at, ev_per_s, event_bytes from sluice.list_log_states(search => 'LO')",
    )
    assert at is not None
    assert per_s > 0
    assert size > 0


def test_names_are_paged_and_searched(log: psycopg.Connection):
    for name in ("a", "b%", "c"):
        log.execute("select pgq.create_queue(%s)", (name,))

    def names(arguments):
        return [name for name, *_ in rows(log, STATES % arguments)]

    assert names("'', 2") == ["a", "b%"]
    assert names("'b%', 2") == ["c", "log"]
    assert names("search => 'B%'") == ["b%"]


def test_a_broken_log_does_not_hide_the_others(log: psycopg.Connection):
    log.execute("select pgq.create_queue('broken')")
    log.execute("drop sequence pgq.event_2_id_seq cascade")

    assert [name for name, *_ in rows(log, STATES % "")] == ["log"]


def test_a_monitor_reads_figures(log: psycopg.Connection, as_member):
    assert as_member("sluice_monitor", "select newest_ev_id from sluice.list_log_states()") == [
        (40,)
    ]


def test_newest_tick_is_found_after_a_rotation(log: psycopg.Connection):
    log.execute("update pgq.queue set queue_rotation_period = '0'")
    log.execute("select sluice.rotate('log')")

    assert rows(log, "select last_tick_id, ev_per_s from sluice.list_log_states()") == [(5, None)]
