"""sluice.acknowledge of a whole claim, which is one statement; test_acknowledge.py has the rest.

For each safeguard of this statement, a variant with a planted bug shows that a check finds it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support import replace_in, rows, value, wait_for_lock
from support.share_groups import (
    acknowledge,
    claim,
    claimed,
    create_group,
    let_pass,
    open_claims,
    refused,
    renew,
    send,
)

CALL = "select sluice.acknowledge('changes', 'workers', %s)"
ACKNOWLEDGE = "sluice.acknowledge(text,text,bigint,text,bigint[],interval,text,text)"


def check_repeated(connection):
    """Another outcome is refused, and the same settles nothing more."""
    send(connection, *"ab")
    claim_id = claim(connection, 2)[0].claim_id

    assert acknowledge(connection, claim_id) == 2
    assert acknowledge(connection, claim_id) == 0
    assert refused(connection, CALL.replace("%s", "%s, 'reject'"), claim_id).sqlstate == "SG002"


def check_some(connection):
    send(connection, *"abc")
    claim_id = claim(connection, 3)[0].claim_id

    assert acknowledge(connection, claim_id, "accept", [2]) == 1
    assert open_claims(connection)[claim_id].settled == 1
    assert acknowledge(connection, claim_id) == 2


def check_redeliveries(connection):
    send(connection, *"ab")
    acknowledge(connection, claim(connection)[0].claim_id, "release")
    events = claim(connection, 2)
    assert [event.ev_id for event in events] == [1, 2]

    assert acknowledge(connection, events[0].claim_id) == 2
    let_pass(connection)
    assert claimed(connection, 2) == []


def check_release(connection):
    send(connection, *"ab")
    assert acknowledge(connection, claim(connection, 2)[0].claim_id, "release") == 2

    assert claimed(connection, 2) == [1, 2]


def check_delay(connection):
    send(connection, "a")
    (event,) = claim(connection)

    refused(connection, CALL.replace("%s", "%s, delay => '0'"), event.claim_id)


def check_other_group(connection):
    create_group(connection, "others")
    send(connection, "a")
    (event,) = claim(connection, group="others")

    error = refused(connection, CALL, event.claim_id)
    assert error.sqlstate in ("SG002", "SG003")


def check_key(connection):
    """The next event of a key can be claimed after the first was accepted."""
    create_group(connection, "keys", key="ev_extra1")
    for data in ("a", "b"):
        connection.execute("select pgq.insert_event('changes', 't', %s, 'k', '', '', '')", [data])
    (event,) = claim(connection, group="keys")
    assert claimed(connection, group="keys") == []

    assert acknowledge(connection, event.claim_id, group="keys") == 1
    assert claimed(connection, group="keys") == [2]


def check_renewed(connection):
    """As a worker does: the receipt of a claim is a renewal. One that has lapsed cannot be accepted."""
    send(connection, *"ab")
    claim_id = claim(connection, 2)[0].claim_id
    renew(connection, claim_id)
    renew(connection, claim_id)

    assert acknowledge(connection, claim_id) == 2
    assert acknowledge(connection, claim_id) == 0
    outcomes = "select outcome_no, outcome, events from sluice.outcome order by outcome_no"
    assert rows(connection, outcomes) == [(1, "renew", 0), (2, "renew", 0), (3, "accept", 2)]

    send(connection, "c")
    (event,) = claim(connection)
    renew(connection, event.claim_id)
    let_pass(connection)
    assert claimed(connection) == [event.ev_id]
    assert refused(connection, CALL, event.claim_id).sqlstate == "SG002"


def check_concurrent(database, connection):
    """An outcome that the snapshot of the statement does not see, because it waited for the lock."""
    send(connection, "a")
    (event,) = claim(connection)
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert acknowledge(first, event.claim_id) == 1
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(acknowledge, second, event.claim_id)
            wait_for_lock(connection, second)
            first.commit()
            assert waiting.result() == 0


def pages_read(connection: psycopg.Connection) -> int:
    """Claim and acknowledge one event; return the number of pages that the latter reads."""
    call = CALL % claim(connection)[0].claim_id
    plan = value(connection, f"explain (analyze, buffers, format json) {call}")
    return plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]


def check_long_ledgers(connection, ledger=0):
    """Its plans are made while one of the ledgers is empty, as after each switch."""
    connection.execute(
        "select pgq.insert_event('changes', 't', n::text) from generate_series(1, 6000) as n"
    )
    connection.execute("update sluice.ledger set number = %s", [1 - ledger])
    claim(connection)
    connection.execute(f"truncate sluice.claim_{ledger}")
    for _ in range(10):  # until the generic plans are cached
        pages_read(connection)
    connection.execute("update sluice.ledger set number = %s", [ledger])
    small = pages_read(connection)
    connection.execute(
        """do $$ begin
            for n in 1 .. 5000 loop
                perform sluice.acknowledge('changes', 'workers', c.claim_id)
                from sluice.claim('changes', 'workers') as c;
            end loop;
        end; $$"""
    )

    assert pages_read(connection) <= small + 10


@pytest.mark.parametrize("ledger", [0, 1])
@pytest.mark.parametrize(
    "check",
    [
        *(check_repeated, check_some, check_redeliveries, check_release, check_delay),
        *(check_other_group, check_key, check_renewed),
    ],
    ids=lambda check: check.__name__,
)
def test_each_ledger_has_a_statement_with_these_safeguards(connection, group, check, ledger):
    connection.execute("update sluice.ledger set number = %s", [ledger])

    check(connection)


def test_two_that_settle_a_claim_concurrently_settle_it_once(database, connection, group):
    check_concurrent(database, connection)


@pytest.mark.slow
@pytest.mark.parametrize("ledger", [0, 1])
def test_long_ledgers_make_it_read_no_more_pages(connection, group, ledger):
    check_long_ledgers(connection, ledger)


GROUP_ROW = """        from sluice.share_group as g
        cross join lateral (
            select c.group_id, c.claim_id, c.events + c.redeliveries as events
"""
FIRST = """            from sluice.claim_0 as c
            where c.group_id = g.group_id
              and c.claim_id = acknowledge.claim_id
              and coalesce(c.lease_until, '-infinity') > '-infinity'
"""
FOUND = """        returning o.events into v_events;
        if found then
            return v_events;
        end if;
        insert"""  # the statement of the other ledger
HAVING = """            from sluice.outcome_0 as o
            where o.group_id = g.group_id and o.claim_id = acknowledge.claim_id
            having coalesce(bool_and(o.outcome = 'renew'), true)
"""
# Bug → the check that finds it, a part of the function's source, and the bug that replaces it. The parts of the statement
# of the first ledger are also in that of the other, see `of_ledger`.
PLANTED = {
    "other outcomes are accepted": (check_release, "outcome = 'accept' and ev_ids", "ev_ids"),
    "events by their numbers are the whole claim": (check_some, "and ev_ids is null", ""),
    "a delay is ignored": (check_delay, "and delay is null then", "then"),
    "earlier outcomes are not looked at": (
        check_some,
        HAVING,
        HAVING.replace("coalesce(bool_and(o.outcome = 'renew'), true)", "true"),
    ),
    "a lapsed claim is accepted": (
        check_renewed,
        HAVING,
        HAVING.replace("= 'renew'", "in ('renew', 'lapse')"),
    ),
    "an outcome that is not visible is an error": (
        check_concurrent,
        f"on conflict do nothing\n{FOUND}",
        FOUND,
    ),
    "redeliveries are not counted": (
        check_redeliveries,
        "c.events + c.redeliveries as events\n            from sluice.claim_0",
        "c.events as events\n            from sluice.claim_0",
    ),
    "the claim of another group is found": (
        check_other_group,
        FIRST,
        FIRST.replace("c.group_id = g.group_id", "true"),
    ),
    "the next claim does not read the outcome": (
        check_key,
        f"g.key is not null\n{GROUP_ROW}{FIRST}",
        f"false\n{GROUP_ROW}{FIRST}",
    ),
    "the index on leases is scanned": (
        check_long_ledgers,
        FIRST,
        FIRST.replace(
            "coalesce(c.lease_until, '-infinity') > '-infinity'", "c.lease_until is not null"
        ),
    ),
}


def of_ledger(source: str, ledger: int) -> str:
    """Return the part of the statement of a ledger that is the same as this of the first one."""
    if ledger == 1:
        source = source.replace("_0", "_1")
        source = source.replace(FOUND, FOUND.removesuffix("        insert") + "    end if;")
    return source


def ledgers_of(bug: str) -> tuple[int, ...]:
    """Return the ledgers to plant a bug in. The second statement is not planned while its table is empty."""
    check, old, _ = PLANTED[bug]
    return (0,) if check is check_long_ledgers or of_ledger(old, 1) == old else (0, 1)


CASES = [
    pytest.param(
        bug,
        ledger,
        marks=pytest.mark.slow if PLANTED[bug][0] is check_long_ledgers else (),
        id=f"{bug}, ledger {ledger}",
    )
    for bug in PLANTED
    for ledger in ledgers_of(bug)
]


@pytest.mark.parametrize(("bug", "ledger"), CASES)
def test_a_planted_bug_is_found(database, connection, group, bug, ledger):
    check, old, new = PLANTED[bug]
    replace_in(connection, ACKNOWLEDGE, of_ledger(old, ledger), of_ledger(new, ledger))
    connection.execute("update sluice.ledger set number = %s", [ledger])
    needs = (database, connection) if check is check_concurrent else (connection,)

    # Without ON CONFLICT, the key refuses a second outcome.
    with pytest.raises((AssertionError, psycopg.errors.UniqueViolation)):
        check(*needs)
