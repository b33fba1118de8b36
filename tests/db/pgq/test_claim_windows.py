"""A log's functions for claims: event_<id>_next, event_<id>_claimed and tick_<id>_window.

A window holds the events that the second snapshot sees and the first does not. event_<id>_next
returns its next events by ev_id, and the tests compare it with this definition.
"""

from __future__ import annotations

import itertools
import random

import pytest

from support import replace_in, rows, value
from support.log import tick

IDS = [n for n in range(2**32 - 20, 2**32 + 21) if n != 2**32]
DEFINITION = """
select ev_id from pgq.event_1
where pg_visible_in_snapshot(ev_txid, %s) and not pg_visible_in_snapshot(ev_txid, %s)
  and (ev_owner is null or ev_owner = 5)
order by ev_id"""
NEXT = """
select e.ev_id, e.ev_data
from unnest(pgq.event_1_next(%s, %s, %s, %s, %s, 5, %s)) with ordinality as e order by ordinality"""


def snapshot(running: set[int], xmax: int) -> str:
    return f"{min(running, default=xmax)}:{xmax}:{','.join(map(str, sorted(running)))}"


def random_snapshots(chance: random.Random, count: int) -> list[str]:
    """Return successive snapshots of one server; an ended transaction does not run again."""
    found = []
    xmax, running = IDS[0], set[int]()
    for _ in range(count):
        new = chance.choice([n for n in IDS if n >= xmax])
        running = {n for n in running if chance.random() < 0.5}
        running |= {n for n in IDS if xmax <= n < new and chance.random() < 0.3}
        xmax = new
        found.append(snapshot(running, xmax))
    return found


@pytest.fixture
def events(connection, log, seed):
    """Three events per transaction, mostly in ev_id order, in two segments, some with an owner.

    Some have the number of an earlier event of their transaction.
    """
    connection.execute("select pgq._prepare_claims(1)")
    chance = random.Random(f"{seed}/events")
    number = 0
    ids: list[int] = []
    for place, txid in enumerate(IDS * 3):
        number += 1
        ev_id = number if chance.random() < 0.8 else chance.randint(-50, 250)
        if place >= len(IDS) and chance.random() < 0.2:
            ev_id = ids[-len(IDS)]
        ids.append(ev_id)
        connection.execute(
            f"insert into pgq.event_1_{place % 2} (ev_id, ev_time, ev_txid, ev_owner, ev_data) "
            "values (%s, now(), %s::text::xid8, %s, %s)",
            (ev_id, txid, chance.choice([None, None, None, 5, 6]), str(place)),
        )
    return number


def check_random_windows(connection, seed):
    chance = random.Random(seed)
    for _ in range(100):
        after, upto = random_snapshots(chance, 2)
        # The bounds of ev_id only make it faster, so any values are valid.
        after_seq, upto_seq = chance.randint(-60, 260), chance.randint(-60, 260)
        defined = [ev_id for (ev_id,) in rows(connection, DEFINITION, upto, after)]
        qty = chance.choice([1, 2, 3, 7, 1000])
        found: list[int] = []
        place = None
        while part := rows(connection, NEXT, after, after_seq, upto, upto_seq, place, qty):
            ids = [ev_id for ev_id, _ in part]
            # More than qty only if the further events share the last ev_id.
            assert len(ids) <= qty or len(set(ids[qty - 1 :])) == 1
            assert place is None or min(ids) > place, "an event is read again"
            found += ids
            place = ids[-1]

        assert found == defined, f"{after} .. {upto}, {after_seq} .. {upto_seq}, {qty}"


def test_a_hundred_random_windows_give_what_the_definition_gives(connection, events, seed):
    check_random_windows(connection, seed)


def test_windows_one_after_the_other_give_every_event_once(connection, events, seed):
    chance = random.Random(seed)
    for _ in range(20):
        snapshots = ["1:1:", *random_snapshots(chance, 6), f"{IDS[-1] + 1}:{IDS[-1] + 1}:"]
        found = [
            text
            for after, upto in itertools.pairwise(snapshots)
            for _, text in rows(connection, NEXT, after, 0, upto, 100, None, 1000)
        ]

        mine = rows(connection, "select ev_data from pgq.event_1 where ev_owner is distinct from 6")
        assert sorted(found) == sorted(text for (text,) in mine)


def check_part(connection):
    after, upto = "1:1:", f"{IDS[-1] + 1}:{IDS[-1] + 1}:"
    part = [ev_id for ev_id, _ in rows(connection, NEXT, after, 0, upto, 100, 20, 30)]
    claimed = """select ev_id from pgq.event_1_claimed(%s, %s, %s, %s, 5, %s)"""

    asked = part[::3]
    found = rows(connection, claimed, after, upto, 20, part[-1], asked)
    assert sorted({ev_id for (ev_id,) in found}) == sorted(set(asked))
    others = [*range(-50, 21), *range(part[-1] + 1, part[-1] + 50), 10**6]
    assert rows(connection, claimed, after, upto, 20, part[-1], others) == []


def test_the_events_of_a_part_are_those_that_were_next(connection, events):
    check_part(connection)


FUNCTIONS = {
    "next": "pgq.event_1_next(pg_snapshot,bigint,pg_snapshot,bigint,bigint,integer,integer)",
    "outside": "pgq.event_1_outside(pg_snapshot,pg_snapshot,bigint,bigint,integer,integer)",
    "claimed": "pgq.event_1_claimed(pg_snapshot,pg_snapshot,bigint,bigint,integer,bigint[])",
}
LATE = "where pg_visible_in_snapshot(late.txid, i_upto)"
# Bug → function, a part of its source, and the bug that replaces it.
PLANTED = {
    "late transactions are skipped": ("outside", LATE, "where false"),
    "late transactions are read while they are open": ("outside", LATE, "where true"),
    "open transactions are read by transaction": (
        "outside",
        "and pg_visible_in_snapshot(e.ev_txid, i_upto)",
        "",
    ),
    "the first transaction of the window is skipped": (
        "outside",
        "e.ev_txid >= pg_snapshot_xmax(i_after)",
        "e.ev_txid > pg_snapshot_xmax(i_after)",
    ),
    "numbers after those of the part are read": ("outside", "and e.ev_id + 0 <= i_upto_ev_id", ""),
    "numbers before those of the part are read": (
        "outside",
        "and e.ev_id + 0 >= i_from_ev_id",
        "",
    ),
    "the page ends between equal numbers by transaction": (
        "outside",
        "order by e.ev_id\n        fetch first (i_qty) rows with ties",
        "order by e.ev_id\n        fetch first (i_qty) rows only",
    ),
    "a late transaction ends between equal numbers": (
        "outside",
        "order by e.ev_txid, e.ev_id\n                fetch first (i_qty) rows with ties",
        "order by e.ev_txid, e.ev_id\n                fetch first (i_qty) rows only",
    ),
    "the page ends between equal numbers": ("next", "rows with ties", "rows only"),
    "open transactions are read": ("next", "and pg_visible_in_snapshot(e.ev_txid, i_upto)", ""),
    "the window before is read": ("next", "and not pg_visible_in_snapshot(e.ev_txid, i_after)", ""),
    "the last number is read again": ("next", "e.ev_id > v_from", "e.ev_id >= v_from"),
    "the last number is read again by transaction": (
        "next",
        "coalesce(i_after_ev_id + 1,",
        "coalesce(i_after_ev_id,",
    ),
    "numbers before the window are read in two ways": (
        "next",
        "i_after_ev_id < i_after_seq and v_from > i_after_ev_id then",
        "i_after_ev_id < i_after_seq then",
    ),
    "numbers before the window are read in no way": (
        "next",
        "e.ev_id > v_from",
        "e.ev_id > greatest(i_after_ev_id, i_after_seq)",
    ),
    "numbers behind the window are not read": (
        "next",
        "if cardinality(v_events) < i_qty and i_after_ev_id is distinct from",
        "if false and i_after_ev_id is distinct from",
    ),
    "numbers behind the window are read again": (
        "next",
        "greatest(i_after_ev_id, i_after_seq, i_upto_seq) + 1",
        "greatest(i_after_seq, i_upto_seq) + 1",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(connection, events, seed, bug):
    name, *change = PLANTED[bug]
    replace_in(connection, FUNCTIONS[name], *change)

    with pytest.raises(AssertionError):
        check_random_windows(connection, seed)


@pytest.mark.parametrize(
    "part",
    ["(e.ev_id > i_after_ev_id or i_after_ev_id is null)", "e.ev_id <= i_upto_ev_id"],
)
def test_events_of_another_part_are_found(connection, events, part):
    replace_in(connection, FUNCTIONS["claimed"], part, "true")

    with pytest.raises(AssertionError):
        check_part(connection)


@pytest.mark.slow
def test_the_next_events_of_a_long_window_cost_a_few_pages(connection, log):
    connection.execute("select pgq._prepare_claims(1)")
    after = value(connection, "select pg_current_snapshot()::text")
    connection.execute(
        "select pgq.insert_event('changes', 't', 'd') from generate_series(1, 50000)"
    )
    upto = value(connection, "select pg_current_snapshot()::text")
    for place, pages in ((100, 60), (25000, 60)):
        query = f"select pgq.event_1_next('{after}', 0, '{upto}', 50000, {place}, 5, 10)"
        for _ in range(6):  # until the generic plan is cached
            connection.execute(query)
        plan = value(connection, f"explain (analyze, buffers, format json) {query}")
        assert plan[0]["Plan"]["Shared Hit Blocks"] < pages


def test_a_late_transaction_in_a_long_window_costs_its_events(connection, log):
    """2,000 events of a transaction that ended late, between older ones, before 30,000 newer ones."""
    connection.execute("select pgq._prepare_claims(1)")
    connection.execute(
        """insert into pgq.event_1_0 (ev_id, ev_time, ev_txid, ev_type)
        select n, now(), t.txid::text::xid8, t.type
        from generate_series(1, 34000) as n
        cross join lateral (
            select 900, 'old' where n <= 4000 and (n - 1) / 100 % 2 = 1
            union all
            select 1000, 'late' where n <= 4000 and (n - 1) / 100 % 2 = 0
            union all
            select n, 'new' where n > 4000
        ) as t (txid, type)"""
    )
    read = "pgq.event_1_next('1000:1001:1000', 4000, '40000:40000:', 34000, %s, 5, 100)"
    pages = {}
    for place in (1000, 3901, 20000):
        query = f"select {read % place}"
        for _ in range(6):  # until the generic plan is cached
            connection.execute(query)
        plan = value(connection, f"explain (analyze, buffers, format json) {query}")
        pages[place] = plan[0]["Plan"]["Shared Hit Blocks"]

    assert max(pages[1000], pages[3901]) <= 2 * pages[20000] + 10, pages
    found = rows(connection, f"select ev_id, ev_type from unnest({read % 3801})")
    ids = [*range(3802, 3901), 4001]
    assert found == [(ev_id, "late" if ev_id < 4001 else "new") for ev_id in ids]


# Last tick of a window


def window(connection, after_tick: int, after: str, events: int) -> int | None:
    return value(
        connection, "select (pgq.tick_1_window(%s, %s, %s)).tick_id", after_tick, after, events
    )


def test_window_ends_at_the_first_tick_with_enough_events(connection, log):
    after = value(connection, "select tick_snapshot::text from pgq.tick")
    ticks = []
    for _ in range(5):
        connection.execute(
            "select pgq.insert_event('changes', 't', 'd') from generate_series(1, 10)"
        )
        ticks.append(tick(connection))

    assert [window(connection, 1, after, n) for n in (1, 10, 11, 25, 50)] == [
        ticks[0],
        ticks[0],
        ticks[1],
        ticks[2],
        ticks[4],
    ]
    # The last tick if there are fewer events.
    assert window(connection, 1, after, 1000) == ticks[4]
    assert window(connection, ticks[4], after, 1000) is None


def test_ticks_that_the_window_before_covers_are_passed_over(connection, log):
    old = tick(connection)
    after = value(connection, "select pg_current_snapshot()::text")
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    assert window(connection, 1, after, 0) is None or window(connection, 1, after, 0) >= old

    after = value(connection, "select pg_current_snapshot()::text")
    covered = "select tick_id, tick_snapshot is null from pgq.tick_1_window(1, %s, 0)"
    last = value(connection, "select max(tick_id) from pgq.tick")
    assert rows(connection, covered, after) == [(last, True)], "only the id of the last one"
    new = tick(connection)
    assert window(connection, 1, after, 0) == new
