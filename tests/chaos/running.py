"""A run of producers, consumers, maintainers and a nemesis, then draining and the checker."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from chaos.consumer import GROUP, LOG
from chaos.processes import TESTS, Processes
from support import rows, value, wait_until
from support.history import Log, operations

BACKOFF_S = 0.3


@dataclass(frozen=True)
class Plan:
    """Size and failures of a run. The same seed gives the same schedule."""

    seed: int
    messages: int
    rate_per_s: int
    consumers: int
    producers: int
    maintainers: int
    lease_s: float
    qty_max: int
    wildness: float
    crashes: int = 0
    drain_s: float = 120.0
    max_attempts: int = 4
    max_deliveries: int = 8

    def schedule(self) -> list[tuple[float, str, int]]:
        """Return times and faults: a kill each second, and the crashes spread over the run."""
        chance = random.Random(self.seed)
        duration_s = self.messages / self.rate_per_s
        faults = [
            (float(second), "kill", chance.randrange(self.consumers))
            for second in range(1, int(duration_s) + 1)
        ]
        for number in range(self.crashes):
            within = (number + 0.2 + 0.6 * chance.random()) / self.crashes
            faults.append((round(duration_s * within, 2), "crash", number))
        return sorted(faults)


class Run:
    """A run in its own database; history, schedule and snapshot are written to `folder`."""

    def __init__(
        self, url: str, folder: Path, plan: Plan, crash: Callable[[], None] | None = None
    ) -> None:
        self._url = url
        self._folder = folder
        self._plan = plan
        self._crash = crash
        self._history = folder / "history"
        self._processes = Processes(folder / "errors")
        self._chance = random.Random(plan.seed)
        self._consumers: list[subprocess.Popen[bytes]] = []
        self._others: list[subprocess.Popen[bytes]] = []
        self._names = 0
        self.kills = 0
        self.is_drained = True
        self.events_kept = 0

    def run(self) -> dict[str, Any]:
        """Run, and return the checker's figures and violations."""
        schedule = self._plan.schedule()
        (self._folder / "schedule.json").write_text(json.dumps(schedule))
        print(f"{self._plan}\n{schedule}")
        try:
            with psycopg.connect(self._url, autocommit=True) as session:
                self._prepare(session)
            begun = time.monotonic()
            self._disturb(schedule)
            quiet = time.monotonic()
            self._drain()
            print(f"disturbed {quiet - begun:.0f} s, drained {time.monotonic() - quiet:.0f} s")
        finally:
            self._processes.kill()
        with psycopg.connect(self._url, autocommit=True) as session:
            self._take_snapshot(session)
        return self._judge()

    def _prepare(self, session: psycopg.Connection) -> None:
        session.execute(
            "create table effect (settlement text, claim_id bigint, ev_id bigint, value text)"
        )
        session.execute("select pgq.create_queue(%s)", [LOG])
        session.execute(
            """update pgq.queue
            set queue_ticker_max_lag = '0.2 s', queue_ticker_max_count = 500, queue_rotation_period = '2 s'"""
        )
        options = {
            "start": "earliest",
            "max_attempts": self._plan.max_attempts,
            "max_deliveries": self._plan.max_deliveries,
            "backoff": "constant",
            "backoff_base": f"{BACKOFF_S} s",
            "backoff_jitter": False,
        }
        session.execute("select sluice.create_group(%s, %s, %s)", [LOG, GROUP, json.dumps(options)])

    def _start(self, program: str, *arguments: object) -> subprocess.Popen[bytes]:
        return self._processes.start(f"chaos.{program}", self._url, self._history, *arguments)

    def _start_consumer(self) -> subprocess.Popen[bytes]:
        self._names += 1
        seed = self._chance.randrange(2**31)
        plan = self._plan
        return self._start(
            *("consumer", f"c{self._names}", seed),
            *(plan.lease_s, plan.qty_max, plan.wildness),
        )

    def _disturb(self, schedule: list[tuple[float, str, int]]) -> None:
        plan = self._plan
        nemesis = Log(self._history, "nemesis")
        self._others = [self._start("maintainer") for _ in range(plan.maintainers)]
        self._consumers = [self._start_consumer() for _ in range(plan.consumers)]
        producers = [
            self._start(
                *("producer", f"p{number}", self._chance.randrange(2**31)),
                *(plan.messages // plan.producers, plan.rate_per_s / plan.producers, plan.qty_max),
            )
            for number in range(plan.producers)
        ]
        self._others += producers
        wait_until(
            lambda: self._history.exists() and bool(operations(self._history)),
            "the first operation",
        )
        begun = time.monotonic()
        for at_s, fault, number in schedule:
            while time.monotonic() < begun + at_s:
                time.sleep(0.02)
                self._replace()
            if fault == "kill":
                self.kills += self._consumers[number].poll() is None
                self._consumers[number].kill()
            else:
                assert self._crash is not None
                nemesis.write("invoke", "crash")
                self._crash()
                nemesis.write("ok", "crash")
        while any(producer.poll() is None for producer in producers):
            assert time.monotonic() < begun + 3 * plan.messages / plan.rate_per_s + 60, "producers"
            time.sleep(0.02)
            self._replace()
        for producer in producers:
            self._processes.require_end(producer)

    def _replace(self) -> None:
        """Replace killed consumers; fail if one ended otherwise."""
        for place, process in enumerate(self._consumers):
            if process.poll() is not None:
                self._processes.require_end(process)
                self._consumers[place] = self._start_consumer()

    def _drain(self) -> None:
        """Wait until everything is consumed, without faults; record a timeout."""
        (self._folder / "calm").touch()
        deadline = time.monotonic() + self._plan.drain_s
        with psycopg.connect(self._url, autocommit=True) as session:
            while not self._has_nothing_left(session):
                if time.monotonic() > deadline:
                    self.is_drained = False
                    break
                time.sleep(0.2)
                self._replace()
        (self._folder / "stop").touch()
        for process in (*self._consumers, *self._others):
            self._processes.require_end(process)

    def _has_nothing_left(self, session: psycopg.Connection) -> bool:
        return (
            value(
                session,
                "select lag_events = 0 and leased = 0 and retrying = 0 from sluice.list_groups(%s, %s)",
                *(LOG, GROUP),
            )
            is True
        )

    def _take_snapshot(self, session: psycopg.Connection) -> None:
        dead = rows(
            session,
            """select jsonb_build_object('ev_id', msg_id, 'value', ev_data, 'claim', claim_id,
                'attempts', attempts, 'deliveries', read_ct, 'reason', reason, 'error', error)
            from sluice.dead_letter""",
        )
        table = value(session, "select queue_data_pfx from pgq.queue")
        self.events_kept = value(session, f"select count(*) from {table}")
        snapshot = {
            "effects": rows(session, "select settlement, claim_id, ev_id, value from effect"),
            "dead": [row for (row,) in dead],
            "max_attempts": self._plan.max_attempts,
            "max_deliveries": self._plan.max_deliveries,
            "backoff_us": int(BACKOFF_S * 1e6),
        }
        (self._folder / "snapshot.json").write_text(json.dumps(snapshot))

    def _judge(self) -> dict[str, Any]:
        checker = subprocess.run(
            [sys.executable, "-m", "chaos.checker", str(self._folder)],
            cwd=TESTS,
            capture_output=True,
            check=False,
        )
        assert checker.stderr == b""
        report = json.loads(checker.stdout)
        assert checker.returncode == bool(report["violations"])
        return report
