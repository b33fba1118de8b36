"""Handlers with random behaviour, in every kind of execution and mode: outcomes match a model.

`outcome_steps.py` draws and predicts, `outcome_handlers.py` acts, `outcome_checker.py` compares.
The seed decides the steps of each start of each message,
but not the timing.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from pgsluice import WorkQueue
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.engine.flow.worker import Worker
from property.outcome_checker import Checker, Effect, Evidence, Settled, Start, Waiting
from property.outcome_handlers import TABLES, URL, app
from property.outcome_steps import KINDS, LATER_S, step_of
from support import rows, value

DRAINED_S = 120
# Record each change of an attempt, as the next one overwrites it.
AUDIT = """
    create table noted (
        queue_name text, msg_id bigint, read_ct integer, state text, attempts integer, error_type text, error text,
        at timestamptz default clock_timestamp()
    );
    create function note() returns trigger language plpgsql security definer as $$
    begin
        insert into public.noted
        values (new.queue_name, new.msg_id, new.read_ct, new.state, new.attempts, new.error_type, new.error);
        return null;
    end $$;
    create trigger note after insert or update on sluice.attempt for each row execute function note();
"""


class Lines(logging.Handler):
    """The events and fields of the failure log."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append((record.event, record.fields))


@pytest.fixture
def lines():
    logger = logging.getLogger("pgsluice.worker.failures")
    handler, level = Lines(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def url(database_18, monkeypatch):
    monkeypatch.setenv(URL, database_18.url)
    return database_18.url


def send_all(connection, seed):
    connection.execute(TABLES + AUDIT)
    sent = {}
    for kind in KINDS.values():
        WorkQueue(connection).create(kind.name)
        payloads = [{"seed": seed, "n": n} for n in range(kind.messages)]
        sent[kind.name] = WorkQueue(connection).send_batch(kind.name, payloads)
    return sent


def due(connection):
    """Return how many messages are to be handled within the test, by queue."""
    found = {
        name: value(
            connection,
            f"select count(*) from pgmq.q_{name} where vt < clock_timestamp() + %s * interval '1 s'",
            LATER_S / 2,
        )
        for name in KINDS
    }
    return {name: qty for name, qty in found.items() if qty}


async def work(connection, url):
    """Run a worker until nothing is left to do; return its counts."""
    worker = Worker(
        app, conninfo=url, ends_when_hung=False, options=WorkerOptions(max_connections=60)
    )
    task = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(DRAINED_S):
            while left := await asyncio.to_thread(due, connection):
                assert not task.done(), task.result()
                await asyncio.sleep(0.1)
    except TimeoutError:
        pytest.fail(f"not drained within {DRAINED_S} s: {left}; {worker.status()}")
    finally:
        worker.stop()
        async with asyncio.timeout(30):
            await task
    return {name: asdict(counts) for name, counts in worker.counts().items()}


def gather(connection, sent, counts, lines):
    settled = [
        Settled(*row)
        for row in rows(
            connection,
            "select queue_name, msg_id, read_ct, case state when 'failed' then 'retry' else 'released' end,"
            " attempts, error_type, error, null, at from noted where state <> 'begun'"
            " union all select queue_name, msg_id, read_ct, 'dead', attempts, error_type, error, reason, dead_at"
            " from sluice.dead_letter",
        )
    ]
    waiting = []
    for name in KINDS:
        settled += [
            Settled(name, msg_id, read_ct, "done", None, None, None, None, at)
            for msg_id, read_ct, at in rows(
                connection, f"select msg_id, read_ct, archived_at from pgmq.a_{name}"
            )
        ]
        query = "select msg_id, read_ct, extract(epoch from vt - clock_timestamp())::float8 from pgmq.q_"
        waiting += [Waiting(name, *row) for row in rows(connection, query + name)]
    return Evidence(
        sent=sent,
        starts=[Start(*row) for row in rows(connection, "select * from start")],
        settled=settled,
        waiting=waiting,
        effects=[Effect(*row) for row in rows(connection, "select * from effect")],
        counts=counts,
        lines=lines,
        found=[
            f"found: message {msg_id} of {name}: {what}"
            for name, msg_id, what in rows(connection, "select * from found")
        ],
    )


def children(connection):
    pids = [pid for (pid,) in rows(connection, "select pid from child")]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def sessions(connection):
    return rows(
        connection,
        "select pid, application_name, state, query from pg_stat_activity where application_name ~ 'outcomes'"
        " and datname = current_database()",
    )


async def leftovers(connection):
    """Return what is left of a worker five seconds after it has stopped."""
    end_s = asyncio.get_running_loop().time() + 5
    while asyncio.get_running_loop().time() < end_s:
        found = [*map(str, children(connection)), *map(str, sessions(connection))]
        if not found:
            return []
        await asyncio.sleep(0.05)
    return [f"left over: {each}" for each in found]


async def run(database, url, seed, lines):
    with database.connect() as connection:
        sent = send_all(connection, seed)
        counts = await work(connection, url)
        evidence = gather(connection, sent, counts, lines)
        evidence.left_over = await leftovers(connection)
    checker = Checker(evidence, partial(step_of, seed))
    checker.run()
    print(f"{dict(checker.figures)}")
    assert checker.violations == [], "\n".join(checker.violations)
    return checker.figures


pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


async def test_every_outcome_is_what_its_handler_did(database_18, url, lines, seed):
    figures = await run(database_18, url, seed, lines)

    # The run must cover enough cases.
    for kind in KINDS:
        assert figures[f"{kind}: done"] > 0
    assert min(figures[each] for each in ("retry", "dead", "released")) > 0


@pytest.mark.long
async def test_every_outcome_is_what_its_handler_did_with_more_seeds(database_18, url, lines, seed):
    await run(database_18, url, seed, lines)
