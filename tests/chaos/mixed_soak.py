"""A run of the mixed load with its samples; see `test_mixed_soak.py`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from chaos.mixed_load import BATCHES, CHANGES, LOG, SLOT_S, STEPS
from chaos.processes import Processes
from pgsluice import Schedules
from support import value, wait_until
from support.processes import running

SAMPLE_S = 1.0
# The rate of a side rises in the first seconds of its turn.
TURN_S, RISE_S = 12.0, 3.0
ROTATION = "10 seconds"

SETUP = f"""
select pgq.create_queue(log) from unnest(array['{LOG}', '{STEPS}', '{BATCHES}', '{CHANGES}']) as log;
update pgq.queue
set queue_ticker_max_lag = '0.1 s', queue_ticker_max_count = 500, queue_rotation_period = '{ROTATION}';
select sluice.create_group('{LOG}', 'workers'), sluice.create_group('{CHANGES}', 'audit');
select sluice.create_group('{STEPS}', 'keyed', '{{"key": "$.key"}}');
select pgq.register_consumer('{BATCHES}', 'lake');
select pgmq.create('jobs'), pgmq.create('beats');
create table purchase (number bigint);
select sluice.capture('purchase', '{CHANGES}')
"""
# A held snapshot keeps the dead rows of work queues, whose rows are updated and deleted, as are those of
# their failed attempts: both are shown, and not limited.
SIZES = """
select case
        when c.relname like 'q\\_%' and n.nspname = 'pgmq' or c.relname = 'attempt' then 'queues'
        when c.relname in ('schedule', 'queue', 'origin') then 'rare'
        else ''
    end,
    sum(pg_total_relation_size(c.oid))::bigint,
    sum(coalesce(s.n_dead_tup, 0))::bigint
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
left join pg_stat_all_tables as s on s.relid = c.oid
where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice') and c.relkind = 'r'
group by 1
order by 1
"""
DEAD_BY_TABLE = """
select relid::regclass::text, n_dead_tup
from pg_stat_all_tables
where schemaname in ('pgmq', 'pgq', 'pgq_coop', 'sluice') and n_dead_tup > 0
order by 2 desc
limit 10
"""


@dataclass(frozen=True)
class Sample:
    """State after some seconds.

    Attributes:
        done_by_kind: Messages done by each handler.
        dead: Dead rows, except for the next two.
        rare_dead: Dead rows of tables that are updated once per scheduled slot or rotation.
        queues_dead: Dead rows of work queues.
        size: Bytes of all tables except those of work queues.
        queues_size: Bytes of these.
    """

    at_s: float
    done_by_kind: dict[str, int]
    dead: int
    size: int
    memory_mb: int
    rare_dead: int = 0
    queues_dead: int = 0
    queues_size: int = 0

    @property
    def done(self) -> int:
        return sum(self.done_by_kind.values())


class Soak:
    """A run with its samples; `folder` is that of the load, `interval` that of maintenance."""

    def __init__(self, url: str, folder: Path, interval: str) -> None:
        self._url, self._folder, self._interval = url, folder, interval
        self.samples: list[Sample] = []
        self.dead_by_table: list[tuple[Any, ...]] = []
        self.report: dict[str, Any] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run, and at the end drain and read the report."""
        self._folder.mkdir(exist_ok=True)
        maintain = ("-m", "pgsluice", "maintain", "--dsn", self._url, "--interval", self._interval)
        processes = Processes(self._folder / "errors")
        with ExitStack() as stack:
            stack.callback(processes.kill)
            session = stack.enter_context(psycopg.connect(self._url, autocommit=True))
            session.execute(SETUP)
            Schedules(session).schedule("beat", "beats", 0, every_s=SLOT_S, catch_up="all")
            holder = stack.enter_context(psycopg.connect(self._url))
            holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            holder.execute("select from pgq.queue")
            stack.enter_context(running((sys.executable, *maintain), self._folder))
            wait_until(
                lambda: value(session, "select count(*) from sluice.schedule_slot") > 0,
                "maintenance to start",
            )
            load = processes.start("chaos.mixed_load", self._url, self._folder)
            wait_until(
                lambda: load.poll() is not None or self._figures()["slots"] > 0,
                "the first scheduled message",
                60,
            )
            yield
            (self._folder / "stop").touch()
            code = load.wait()
            assert (code, self._errors()) == (0, [])
            self.dead_by_table = session.execute(DEAD_BY_TABLE).fetchall()
            holder.rollback()
        self.report = json.loads((self._folder / "report.json").read_text())

    def _errors(self) -> list[str]:
        lines = (self._folder / "errors").read_text().splitlines()
        # At its maximum, the load may hold all connections of the pool; a waiting consumer tries again.
        return [
            line
            for line in lines
            if not line.startswith("listener state=")
            and "cannot wait: ConnectionFailedError: no connection within" not in line
        ]

    def _figures(self) -> dict[str, Any]:
        file = self._folder / "figures"
        lines = file.read_text().splitlines() if file.exists() else []
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {"slots": 0}
        return found

    def pause(self) -> None:
        """Send no more; what was sent is still handled."""
        (self._folder / "pause").touch()

    def turn(self) -> float:
        """Resume for some seconds; return the throughput."""
        (self._folder / "pause").unlink(missing_ok=True)
        time.sleep(RISE_S)
        first = self._figures()
        time.sleep(TURN_S)
        last = self._figures()
        self.pause()
        return (sum(last["done"].values()) - sum(first["done"].values())) / (
            last["at_s"] - first["at_s"]
        )

    def sample_all(self, minutes: float) -> None:
        """Sample for the time, and print a line per minute, or per tenth of a shorter time."""
        step_s = min(60.0, minutes * 6)
        begin, shown = time.monotonic(), 0
        print(
            f"\n{'min':>5} {'done/s':>8} {'dead':>6} {'rare':>6} {'MB':>6} {'worker MB':>9} "
            f"{'in queues':>9} {'MB':>4}  done/s of each"
        )
        with psycopg.connect(self._url, autocommit=True) as session:
            while (now_s := time.monotonic() - begin) < minutes * 60:
                assert not self._errors(), "\n".join(self._errors())
                self.samples.append(self._sample(session, now_s))
                if now_s >= (shown + 1) * step_s:
                    shown += 1
                    self._show(now_s - step_s)
                time.sleep(SAMPLE_S)

    def _sample(self, session: psycopg.Connection, at_s: float) -> Sample:
        found = {kind: (size, dead) for kind, size, dead in session.execute(SIZES)}
        figures = self._figures()
        return Sample(
            at_s,
            done_by_kind=figures["done"],
            dead=found[""][1],
            size=found[""][0] + found["rare"][0],
            memory_mb=figures["memory_mb"],
            rare_dead=found["rare"][1],
            queues_dead=found["queues"][1],
            queues_size=found["queues"][0],
        )

    def _show(self, since_s: float) -> None:
        last = self.samples[-1]
        first = next(sample for sample in self.samples if sample.at_s >= since_s)
        rates = ", ".join(
            f"{kind} {(done - first.done_by_kind[kind]) / (last.at_s - first.at_s):,.0f}"
            for kind, done in last.done_by_kind.items()
        )
        print(
            f"{last.at_s / 60:>5.1f} {rate_of([first, last]):>8,.0f} {last.dead:>6,} {last.rare_dead:>6,} {last.size / 1e6:>6.1f} {last.memory_mb:>9} "
            f"{last.queues_dead:>9,} {last.queues_size / 1e6:>4.0f}  {rates}",
            flush=True,
        )


def rate_of(samples: list[Sample]) -> float:
    first, last = samples[0], samples[-1]
    return (last.done - first.done) / (last.at_s - first.at_s)
