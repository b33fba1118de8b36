"""A share group whose consumers are killed every second and whose server crashes."""

from __future__ import annotations

import os

import pytest

from chaos.running import Plan, Run
from support import replace_in
from support.crash import server_to_crash

MESSAGES = int(os.environ.get("PGSLUICE_CHAOS_MESSAGES", "20000"))
RATE_PER_S = 1000


@pytest.fixture
def crashing_server(servers_folder):
    with server_to_crash(servers_folder) as server:
        yield server


@pytest.mark.slow
@pytest.mark.timeout(300 + 6 * MESSAGES / RATE_PER_S)
def test_nothing_is_lost_and_every_redelivery_is_explained(crashing_server, tmp_path, seed):
    """Eight consumers, one killed every second; three crashes.

    Set `PGSLUICE_CHAOS_MESSAGES=200000` for the full size.
    """
    plan = Plan(
        *(seed, MESSAGES, RATE_PER_S),
        consumers=8,
        producers=4,
        maintainers=2,
        lease_s=2.0,
        qty_max=300,
        wildness=1,
        crashes=3,
        drain_s=120 + 2 * MESSAGES / RATE_PER_S,
    )

    def crash():
        crashing_server.stop("immediate")
        crashing_server.start()

    run = Run(crashing_server.url(), tmp_path, plan, crash)
    report = run.run()

    print(f"{run.kills} kills, {run.events_kept} events kept by the log\n{report['figures']}")
    assert report["violations"] == []
    assert run.is_drained
    # The run must cover enough cases.
    figures = report["figures"]
    assert figures["crashes"] == 3
    assert figures["events"] >= 0.9 * MESSAGES
    assert run.kills >= 0.8 * MESSAGES / RATE_PER_S
    assert run.events_kept < figures["events"], "no segment of the log was emptied"
    for what in (
        *("claims info", "settlements fail", "renewals ok", "refused, lease lost"),
        *("deliveries after expiry", "deliveries after retry", "deliveries after release"),
        *("dead, rejected", "dead, too many attempts"),
    ):
        assert figures.get(what, 0) > 0, what


CLAIM = "sluice.claim(text,text,integer,interval,boolean,text[],boolean)"
UNSETTLED = "sluice._unsettled(sluice.share_group,sluice.claim,text,bigint[])"
EXPIRE_LEASE = "sluice._expire_lease(sluice.share_group,sluice.claim,bigint,integer)"
REDELIVER = "sluice._redeliver(sluice.share_group,sluice.claim,sluice.outcome)"
# Bug → the checker's kinds of violations, the function, and the change.
BUGS = {
    "claim without the lock": (
        {"overlap"},
        (
            CLAIM,
            "for update of l skip locked;",
            ";",
        ),
    ),
    "a window by number": (
        {"lost"},
        (
            "pgq._outdated_functions(integer[])",
            "if i_after_ev_id is null and i_upto_seq - i_after_seq <= 100 then",
            "if false then",
        ),
        (
            "pgq._outdated_functions(integer[])",
            "if i_after_ev_id is null or i_after_ev_id < i_after_seq and v_from > i_after_ev_id then",
            "if false then",
        ),
    ),
    "acknowledge without the fence": (
        {"stale", "effect twice"},
        (UNSETTLED, "if v_lost <> '{}' then", "if false then"),
        (
            UNSETTLED,
            "and o.outcome <> 'renew'\n              and (o.ev_ids",
            "and o.outcome not in ('renew', 'lapse')\n              and (o.ev_ids",
        ),
    ),
    "an expiry that ignores outcomes": (
        {"again"},
        (
            EXPIRE_LEASE,
            "if v_count >= v_claim.events + v_claim.redeliveries then",
            "if false then",
        ),
        (EXPIRE_LEASE, "if v_count > 0 then", "if false then"),
        (
            "sluice._expire_leases(sluice.share_group,sluice.claim)",
            "if v_lease.is_open then",
            "if true then",
        ),
    ),
    "an expiry that ignores renewals": (
        {"overlap"},
        (EXPIRE_LEASE, "if v_renewal > i_renewal and", "if false and"),
    ),
    "an expiry without a heartbeat that counts": (
        {"attempts"},
        (REDELIVER, "v_attempt := found::integer", "v_attempt := 1"),
    ),
    "a retry that counts nothing": (
        {"attempts"},
        (REDELIVER, "e.redriven, e.attempts + $4,", "e.redriven, e.attempts,"),
    ),
    "a retry that does not wait": (
        {"early"},
        (
            "sluice._backoff(sluice.share_group,integer)",
            "select sluice._backoff(",
            "select 0 * sluice._backoff(",
        ),
    ),
    "a retry that never ends": (
        {"again"},
        (
            "sluice._settle(sluice.share_group,bigint,text,bigint[],interval,text,text,jsonb)",
            "sluice._is_last(c.attempts + 1,",
            "sluice._is_last(0,",
        ),
    ),
    "a dead letter that is written nowhere": (
        {"lost"},
        (
            "sluice._dead_letter(sluice.share_group,bigint,sluice.redelivery[],text,jsonb)",
            "insert into sluice.dead_letter_event",
            "return; insert into sluice.dead_letter_event",
        ),
    ),
    "outcomes read by the newest": (
        {"lost"},
        (
            "sluice._read_outcomes(sluice.share_group,sluice.claim)",
            "select late.txid",
            "select '0'::xid8",
        ),
    ),
}


def small_run(database, folder, seed):
    """Run few processes with many faults, without waiting for lost events."""
    with database.connect() as connection:
        # A delay between a claim's reads and writes; with the claim's lock it is harmless.
        replace_in(
            connection,
            CLAIM,
            "v_claim.claim_id := greatest(",
            "perform pg_sleep(random() * 0.02); v_claim.claim_id := greatest(",
        )
    plan = Plan(
        *(seed, 1500, 400),
        consumers=4,
        producers=3,
        maintainers=1,
        lease_s=0.8,
        qty_max=20,
        wildness=3,
        drain_s=6.0,
    )
    run = Run(database.url, folder, plan)
    return run, run.run()["violations"]


@pytest.mark.slow
def test_a_small_run_finds_nothing_where_nothing_is_wrong(database_18, tmp_path, seed):
    run, violations = small_run(database_18, tmp_path, seed)

    assert violations == []
    assert run.is_drained


# test_checker.py tests each violation; this tests the checker with real runs.
SHOWN_ALWAYS = ("an expiry that ignores renewals",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, id=name, marks=() if name in SHOWN_ALWAYS else pytest.mark.long)
        for name, bug in BUGS.items()
    ],
)
def test_a_small_run_finds_each_planted_bug(make_database_18, tmp_path, seed, bug):
    found, *changes = bug
    # A race does not occur in every run.
    for number in range(3):
        database, folder = make_database_18(), tmp_path / str(number)
        folder.mkdir()
        with database.connect() as connection:
            for function, old, new in changes:
                replace_in(connection, function, old, new)
        _, violations = small_run(database, folder, seed + number)
        if found & {line.partition(":")[0] for line in violations}:
            return
    pytest.fail(f"three runs without {' or '.join(sorted(found))}: {violations}")
