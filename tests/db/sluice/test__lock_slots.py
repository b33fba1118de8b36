"""Many logs: each transaction locks a bounded number of tables, and a failing log stops no other.

These tests replace sluice._lock_slots to return 200, so that a page has a few logs. Also covers
pgq._page_start, which returns where a session continues.
"""

import pytest
from psycopg_pool import ConnectionPool

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls.logs import rotate_page, tick_page
from pgsluice.worker.upkeep.maintenance import Maintenance
from pgsluice.worker.upkeep.ticker import Ticker
from support import rows, value
from support.failures import delay
from support.share_groups import create_group

LOGS = 12
NAMES = ["", *(f"log {n:02}" for n in range(1, LOGS))]
LOCKS = "select count(*) from pg_locks where pid = pg_backend_pid() and relation >= 16384"


@pytest.fixture
def logs(connection):
    for name in NAMES:
        connection.execute("select pgq.create_queue(%s)", (name,))
    connection.execute(
        "create or replace function sluice._lock_slots() returns integer language sql "
        "set search_path = pg_catalog, pg_temp as 'select 200'"
    )
    return connection


def insert(session, names=NAMES):
    for name in names:
        session.execute("select pgq.insert_event(%s, 't', 'd')", (name,))


def pages(session, query, setting):
    """Call until the last log; return all rows, and the maximum number of locks of a call."""
    session.execute("select set_config(%s, '>', false)", (setting,))
    found, locks = [], 0
    while True:
        with session.transaction():
            found += rows(session, query)
            locks = max(locks, value(session, LOCKS))
        if value(session, "select current_setting(%s)", setting) == ">":
            return found, locks


def test_tick_takes_a_page_of_the_logs_at_a_time(logs):
    insert(logs)

    found, locks = pages(logs, "select log_name from sluice.tick()", "sluice.tick_after")

    assert found == [(name,) for name in NAMES]
    assert locks <= 150


def test_idle_logs_are_ticked_in_larger_pages(logs):
    for _ in range(3):
        pages(logs, "select log_name from sluice.tick()", "sluice.tick_after")
    with logs.transaction():
        logs.execute("select sluice.tick()")
        # Locks only the sequences.
        assert value(logs, LOCKS) <= LOGS + 10
    assert value(logs, "select current_setting('sluice.tick_after')") == ">"


@pytest.mark.slow
def test_new_sessions_tick_every_log_in_time(database, logs):
    insert(logs)
    ticked = set()
    for _ in range(200):
        with database.connect() as session:  # as in each run of a pg_cron job
            ticked |= {name for (name,) in rows(session, "select log_name from sluice.tick()")}
        if ticked == set(NAMES):
            return
    raise AssertionError(f"never ticked: {set(NAMES) - ticked}")


def test_ticker_takes_a_page_of_the_logs_at_a_time(logs):
    insert(logs)
    logs.execute("update pgq.queue set queue_ticker_max_lag = '0'")

    found, locks = pages(logs, "select pgq.ticker()", "sluice.ticker_after")

    assert sum(n for (n,) in found) == LOGS
    assert locks <= 150


def test_rotate_takes_a_page_of_the_logs_at_a_time(logs):
    logs.execute("update pgq.queue set queue_switch_time = '2000-01-01'")

    found, locks = pages(
        logs,
        "select log_name from sluice.rotate() where action = 'switched'",
        "sluice.rotate_after",
    )

    assert found == [(name,) for name in NAMES]
    assert locks <= 150


def test_calls_of_a_page_go_on_in_another_session(database, logs):
    insert(logs)
    after, ticks = Runner(logs).run(tick_page(">"))
    assert [tick.log_name for tick in ticks] == NAMES[: len(ticks)]
    with database.connect() as other:
        _, more = Runner(other).run(tick_page(after))
        assert [tick.log_name for tick in more] == NAMES[len(ticks) : len(ticks) + len(more)]
        assert more
    assert Runner(logs).run(rotate_page(f">{NAMES[-1]}")) == (">", [])


def test_retries_of_many_logs_are_moved_some_logs_at_a_time(logs):
    delay(logs, *NAMES)

    assert [value(logs, "select pgq.maint_retry_events()") for _ in range(3)] == [10, 2, 0]


@pytest.fixture
def broken(logs):
    """Break two logs: the first has lost a function, the second its sequence."""
    logs.execute("drop function pgq.tick_1_last()")
    logs.execute("drop sequence pgq.event_2_id_seq cascade")
    insert(logs, NAMES[2:])
    return logs


def test_log_that_fails_stops_no_tick_of_another(broken):
    warnings = []
    broken.add_notice_handler(lambda d: warnings.append(d.message_primary))

    found, _ = pages(broken, "select log_name from sluice.tick()", "sluice.tick_after")

    assert found == [(name,) for name in NAMES[2:]]
    assert [w.split(" is not ticked")[0] for w in warnings][:1] == ["event log "]


def test_log_that_fails_stops_no_rotation_of_another_and_is_named(broken):
    broken.execute("update pgq.queue set queue_switch_time = '2000-01-01'")

    found, _ = pages(
        broken, "select log_name, action, reason from sluice.rotate()", "sluice.rotate_after"
    )

    assert [name for name, action, _ in found if action == "switched"] == NAMES[2:]
    failed = {name: reason for name, action, reason in found if action == "failed"}
    assert list(failed) == NAMES[:2]
    assert "tick_1_last" in failed[NAMES[0]]
    assert "42883" in failed[NAMES[0]]


def test_processes_name_a_log_that_fails_and_go_on(database, broken, caplog):
    broken.execute("update pgq.queue set queue_switch_time = '2000-01-01'")

    with ConnectionPool(database.url, min_size=1, max_size=1, open=True) as pool:
        assert [tick.log_name for tick in Ticker(pool).run_once()] == NAMES[2:]
        left = Maintenance(pool).run_once()

    assert [(step.task, step.queue_name, step.done) for step in left] == [
        ("rotate", NAMES[0], False),
        ("rotate", NAMES[1], False),
    ]
    assert "maintenance step failed task=rotate queue=- error" in caplog.text


def test_group_that_fails_stops_no_other_and_is_named(logs):
    for name in NAMES[:2]:
        create_group(logs, "g", log=name)
    insert(logs, NAMES[:2])
    logs.execute(
        "select sluice.claim(q, 'g', lease => '1 microsecond') from unnest(%s::text[]) as q",
        (NAMES[:2],),
    )
    logs.execute(
        "drop function pgq.event_1_claimed(pg_snapshot, pg_snapshot, bigint, bigint, integer, bigint[])"
    )
    logs.execute(
        "drop function pgq.event_1_next(pg_snapshot, bigint, pg_snapshot, bigint, bigint, integer, integer)"
    )

    found = rows(logs, "select log_name, action, reason from sluice.maintain_groups()")

    assert ("failed",) in [(action,) for name, action, _ in found if name == NAMES[0]]
    assert ("leases checked",) in [(action,) for name, action, _ in found if name == NAMES[1]]


@pytest.mark.long
def test_event_of_257_mb_is_rejected_and_stops_no_claim_and_no_rotation(connection):
    connection.execute("select pgq.create_queue('events')")
    create_group(connection, "g", log="events")
    connection.execute("select pgq.insert_event('events', 't', repeat('x', 257 * 1024 * 1024))")
    connection.execute("select pgq.insert_event('events', 't', 'small')")
    claim = "select claim_id, ev_id, length(ev_data) from sluice.claim('events', 'g', 1)"

    ((claim_id, ev_id, _),) = rows(connection, claim)
    connection.execute(
        "select sluice.acknowledge('events', 'g', %s, 'reject', error => 'too large')", (claim_id,)
    )
    ((_, next_id, length),) = rows(connection, claim)
    connection.execute("update pgq.queue set queue_switch_time = '2000-01-01'")
    rotated = rows(connection, "select log_name, action, reason from sluice.rotate()")

    assert (ev_id, next_id, length) == (1, 2, 5)
    assert [name for name, action, _ in rotated if action == "switched"] == ["events"]
    assert [step for step in rotated if step[1] == "failed"] == []
    assert rows(connection, "select msg_id, length(ev_data), error from sluice.dead_letter") == [
        (1, 257 * 1024 * 1024, "too large")
    ]
