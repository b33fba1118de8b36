"""A run of everything at once: crashes, clock steps, promotion, restore and upgrade under load.

Producers, consumers of every kind and the upkeep are processes that find the current server by a
file. The nemesis cancels and terminates their sessions, kills consumers and moves the database
through the phases of the plan. Afterwards everything must be consumed and all logs must be emptied,
and `chaos.everything.reconciler` compares sent items with delivered ones.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from chaos.everything.clusters import Clusters, next_id, use_ids
from chaos.everything.host import Host, Program
from chaos.everything.layout import (
    CATCH_UP_S,
    CONSUMERS,
    GROUPS,
    LOGS,
    MAX_ATTEMPTS,
    QUEUES,
    SCHEDULES,
    SLOT_S,
    TABLES,
    UNWATCH_SLOTS,
    WATCH_SLOTS,
)
from chaos.processes import TESTS, require_end
from pgsluice import schema
from support import rows, value, wait_until
from support.clock import cancel_lock_waits
from support.history import Log, operations
from support.queue_options import set_queue_options

PHASES = ("crash", "clock", "promotion", "restore", "upgrade")
IDS_BEFORE = 20_000  # ids used by the first server, so that a new server has lower ones
DAY_S = 86_400.0


@dataclass(frozen=True)
class Plan:
    """Plan of a run. The seed decides the load and the schedule of faults, but not their timing."""

    seed: int
    phases: tuple[str, ...]
    phase_s: float = 6.0
    producers: int = 3
    txns_per_s: float = 8.0
    version: int = 18
    upgrade_to: int = 18
    drain_s: float = 60.0
    without: tuple[str, ...] = ()  # ingredients and phases to leave out, to isolate a failure


class Run:
    """One run; `folder` gets histories, signs and the snapshot, `servers_folder` the servers."""

    def __init__(self, plan: Plan, folder: Path, servers_folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._chance = random.Random(plan.seed)
        # The number of faults depends on the machine; clock steps and ids do not.
        self._of_phases = random.Random(f"{plan.seed}/phases")
        self._errors = folder / "errors"
        self._consumers: dict[tuple[str, ...], Program] = {}
        self._producers: list[Program] = []
        self._names = 0
        self._log = Log(folder / "history", "nemesis")
        self._skipped: list[list[str]] = []
        self._differences: list[str] = []
        self._clusters = Clusters(servers_folder, plan.version)
        self._host = Host(self._errors)
        self._can_cancel = True
        self.is_drained = True
        self.durations: dict[str, float] = {}

    def run(self) -> dict[str, Any]:
        """Run, and return the reconciler's figures and violations."""
        print(self._plan)
        try:
            self._clusters.start()
            self._prepare()
            self._start()
            for phase in self._plan.phases:
                if phase in self._plan.without:
                    continue
                self._timed(phase, getattr(self, f"_{phase}"))
            self._timed("drain", self._drain)
            return self._reconcile()
        finally:
            self._host.end()
            self._clusters.stop()

    def _timed(self, name: str, step: Any) -> None:
        begun = time.monotonic()
        step()
        self.durations[name] = round(time.monotonic() - begun, 1)

    # Preparation

    def _prepare(self) -> None:
        with psycopg.connect(self._clusters.server.url(), autocommit=True) as session:
            session.execute("create database everything")
            use_ids(session, until=IDS_BEFORE)
        with self._clusters.connect() as session:
            schema.install(session)
            session.execute(TABLES)
            if "publication" not in self._plan.without:
                session.execute("create publication everything for all tables")
            for log in LOGS:
                session.execute("select pgq.create_queue(%s)", [log])
            session.execute(
                """update pgq.queue set queue_ticker_max_lag = '0.2 s', queue_ticker_idle_period = '1 s',
                    queue_ticker_max_count = 50, queue_rotation_period = '0.1 s'"""
            )
            for consumer in CONSUMERS:
                session.execute(
                    "select pgq.register_consumer(%s, %s)", [consumer.log, consumer.name]
                )
            for group in GROUPS:
                session.execute(
                    "select sluice.create_group(%s, %s, %s)",
                    [group.log, group.name, json.dumps(group.options)],
                )
            for queue in QUEUES:
                session.execute("select pgmq.create(%s)", [queue])
                set_queue_options(
                    session,
                    queue,
                    max_attempts=MAX_ATTEMPTS,
                    backoff="constant",
                    backoff_base="0.1 s",
                    backoff_max="1 s",
                    backoff_jitter=False,
                )
            set_queue_options(session, "steps", when_waiting="block")
            session.execute(WATCH_SLOTS)
            when = [f"{SLOT_S} s", f"{CATCH_UP_S} s"]
            session.execute(
                """select sluice.schedule('slots', %s, '{}', every => %s::interval, catch_up => 'all',
                    catch_up_within => %s::interval)""",
                [SCHEDULES["slots"], *when],
            )
            session.execute(
                """select sluice.schedule('beats', %s, event => '{"ev_type": "beat", "ev_data": "{}"}', every => %s::interval, catch_up => 'all',
                    catch_up_within => %s::interval)""",
                [SCHEDULES["beats"], *when],
            )

    def _publish_url(self) -> None:
        """Write the URL of the current server to the file that all processes read."""
        new = self._folder / "url.new"
        new.write_text(self._clusters.url)
        new.rename(self._folder / "url")

    def _start(self) -> None:
        self._publish_url()
        self._host.start("upkeep", self._folder, "upkeep", self._seed())
        for group in GROUPS:
            for number in range(2 if group.log == "orders" else 1):
                self._start_consumer(f"{number}", "group", group.log, group.name)
        for consumer in CONSUMERS:
            for member in consumer.members or ((),):
                self._start_consumer(
                    "", "batch", consumer.log, consumer.name, *([member] if member else [])
                )
        for queue in QUEUES:
            self._start_consumer("", "queue", queue)
        self._send()
        wait_until(lambda: (self._folder / "history").stat().st_size > 0, "the first operation")

    def _seed(self) -> int:
        return self._chance.randrange(2**31)

    def _start_consumer(self, *what: str) -> None:
        self._names += 1
        self._consumers[what] = self._host.start(
            "consumer", self._folder, f"c{self._names}", self._seed(), *what[1:]
        )

    def _send(self) -> None:
        """Start producers for as long as the phases may last."""
        for _ in range(self._plan.producers):
            self._names += 1
            self._producers.append(
                self._host.start(
                    *("producer", self._folder, f"p{self._names}", self._seed()),
                    *(10**9, self._plan.txns_per_s),
                )
            )

    # Faults

    def _disturb(self, seconds: float) -> None:
        """Cancel, terminate and kill for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(self._chance.uniform(0.05, 0.6))
            fault = self._chance.choices(["cancel", "terminate", "kill"], [4, 3, 1])[0]
            if fault == "kill":
                self._consumers[self._chance.choice(sorted(self._consumers))].kill()
            elif fault == "terminate" or self._can_cancel:
                self._end_session(f"pg_{fault}_backend")
            self._count(fault)
            self._replace()

    def _end_session(self, function: str) -> None:
        with self._clusters.connect() as session:
            found = [
                pid
                for (pid,) in rows(
                    session,
                    "select pid from pg_stat_activity where application_name like 'actor %' order by pid",
                )
            ]
            if found:
                session.execute(f"select {function}(%s)", [self._chance.choice(found)])

    def _count(self, what: str) -> None:
        self._log.write("invoke", "fault", what)
        self._log.write("ok", "fault")

    def _replace(self) -> None:
        """Replace killed consumers."""
        for what, process in list(self._consumers.items()):
            if process.poll() is not None:
                require_end(process.wait(), self._errors)
                self._start_consumer(*what)

    # Phases

    def _crash(self) -> None:
        """Crash the server three times under load."""
        for how in ("kill", "immediate", "kill"):
            self._disturb(self._plan.phase_s)
            self._count("crash")
            self._clusters.crash(how)
        # On a busy machine, an installation takes longer than the time between two faults.
        until = time.monotonic() + 30
        while not self._has_reinstalled() and time.monotonic() < until:
            self._disturb(1)

    def _has_reinstalled(self) -> bool:
        found = operations(self._folder / "history")
        return any(op.name == "reinstall" and op.outcome == "ok" for op in found)

    def _clock(self) -> None:
        """Step the clock forward and back under load; end far ahead, so that delays are over."""
        steps = [
            self._of_phases.choice([-1, 1]) * self._of_phases.choice([10, 3600, DAY_S])
            for _ in range(3)
        ]
        for step in (*steps, 3 * DAY_S):
            with self._clusters.connect() as session:
                before = value(session, "select clock_timestamp()")
                self._count(f"clock {step:+.0f} s")
                self._clusters.clock.shift(step)
                after = value(session, "select clock_timestamp()")
                if step < 0:
                    cancel_lock_waits(session)
            self._skipped.append(sorted([before.isoformat(), after.isoformat()]))
            self._disturb(self._plan.phase_s / 2)

    def _promotion(self) -> None:
        """Add a synchronous standby and fail over to it."""
        standby = self._clusters.add_standby()
        # A cancelled wait for the standby commits on the primary alone.
        self._can_cancel = False
        self._disturb(self._plan.phase_s)
        self._count("promotion")
        self._clusters.promote(standby)
        self._publish_url()
        self._can_cancel = True
        self._disturb(self._plan.phase_s)

    def _restore(self) -> None:
        """Dump under load, and continue on a new server with other transaction ids."""
        self._disturb(self._plan.phase_s)
        with self._clusters.connect() as session:
            oldest = next_id(session)
        ids = (
            self._of_phases.choice(["lower", "lower", "between", "higher"])
            if "upgrade" in self._plan.phases
            else "lower"
        )
        first_id = {"lower": 0, "between": oldest - 2_000, "higher": oldest + 100_000}[ids]
        # Commits after the dump's snapshot are lost with the old server.
        self._log.write("invoke", "cut")
        dump = self._clusters.dump()
        (self._folder / "url").unlink()
        self._clusters.restore(dump, first_id)
        with self._clusters.connect() as session:
            repaired = rows(session, "select log_name, events from sluice.after_restore()")
        self._verify("the restore")
        self._log.write("ok", "cut")
        self._count(f"restore into {ids} ids")
        self._log.write("invoke", "repaired", repaired)
        self._publish_url()
        self._disturb(self._plan.phase_s)

    def _verify(self, after: str) -> None:
        """Compare the schemas with this release, without the run's own trigger."""
        if "verify" in self._plan.without:
            return
        with self._clusters.connect() as session:
            found = schema.verify(session)
        self._differences += [f"after {after}: {line}" for line in found if "note_slot" not in line]

    def _upgrade(self) -> None:
        """Upgrade by pg_upgrade, and continue."""
        self._disturb(self._plan.phase_s)
        (self._folder / "calm").touch()
        with self._clusters.connect() as session:
            wait_until(
                lambda: value(session, "select count(*) from pg_prepared_xacts") == 0,
                "prepared transactions",
            )
        (self._folder / "url").unlink()
        with self._clusters.connect() as session:
            session.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'actor %'"
            )
            for (gid,) in rows(session, "select gid from pg_prepared_xacts"):
                session.execute(f"rollback prepared '{gid}'")
        self._clusters.upgrade(self._plan.upgrade_to)
        self._verify("the upgrade")
        (self._folder / "calm").unlink()
        self._count("upgrade")
        self._publish_url()
        self._disturb(self._plan.phase_s)

    # The end

    def _drain(self) -> None:
        """End the load; everything must be consumed and every log emptied in time."""
        for producer in self._producers:
            producer.kill()
            require_end(producer.wait(), self._errors)
        (self._folder / "calm").touch()
        deadline = time.monotonic() + self._plan.drain_s
        with self._clusters.connect() as session:
            # Check twice: a consumer may retry an event after the retries were counted and before
            # its batch is.
            while waiting := self._waiting(session) or self._waiting(session):
                if time.monotonic() > deadline:
                    self.is_drained = False
                    print(f"not drained: {waiting}")
                    break
                time.sleep(0.2)
                self._replace()
        (self._folder / "stop").touch()
        for process in self._consumers.values():
            require_end(process.wait(), self._errors)

    def _waiting(self, session: psycopg.Connection) -> list[Any]:
        """Return the remaining work."""
        schedules = [
            name
            for name, paused in rows(
                session, "select name, paused_at is not null from sluice.schedule"
            )
            if not paused
        ]
        for name in schedules:
            session.execute("select sluice.pause_schedule(%s)", [name])
        waiting = rows(
            session, "select 'prepared', count(*) from pg_prepared_xacts having count(*) > 0"
        )
        waiting += rows(
            session, "select 'retries', count(*) from pgq.retry_queue having count(*) > 0"
        )
        for log in LOGS:
            if delayed := value(session, "select sluice.count_delayed(%s)", log):
                waiting.append((log, "delayed", delayed))
        for queue in QUEUES:
            if length := value(session, f"select count(*) from pgmq.q_{queue}"):
                waiting.append((queue, length))
        for group in GROUPS:
            figures = rows(
                session,
                "select lag_events, leased, retrying from sluice.list_groups(%s, %s)",
                group.log,
                group.name,
            )[0]
            if figures != (0, 0, 0):
                waiting.append((group.log, group.name, *figures))
        if not waiting:
            # The last events need a tick.
            for log in LOGS:
                session.execute("select sluice.log_tick(%s)", [log])
        return waiting + rows(
            session,
            """select i.queue_name, i.consumer_name, i.last_tick, i.current_batch, i.pending_events
            from pgq.get_consumer_info() as i
            where i.current_batch is not null
               or i.last_tick < (
                   select max(t.tick_id) from pgq.tick as t join pgq.queue as q on q.queue_id = t.tick_queue
                   where q.queue_name = i.queue_name
               )
               and not exists (
                   select from sluice.share_group as g join pgq.queue as q on q.queue_id = g.queue_id
                   where q.queue_name = i.queue_name and g.group_name = i.consumer_name
               )
               and i.consumer_name not like 'team.%'""",
        )

    def _empty(self, session: psycopg.Connection) -> None:
        """Rotate until every segment that is not the current one is empty."""
        end = time.monotonic() + 15
        while time.monotonic() < end:
            for log in LOGS:
                session.execute("select sluice.log_tick(%s)", [log])
            # A group's position is that of its last claim, and the consumers have ended.
            for group in GROUPS:
                session.execute("select from sluice.claim(%s, %s, 1000)", [group.log, group.name])
            session.execute("select from sluice.rotate()")
            if not any(
                segment["events"] for segment in self._segments(session) if not segment["current"]
            ):
                return
            time.sleep(0.1)

    def _segments(self, session: psycopg.Connection) -> list[dict[str, Any]]:
        """Return all segments, and the events in each."""
        found = []
        for log in LOGS:
            table = value(
                session, "select queue_data_pfx from pgq.queue where queue_name = %s", log
            )
            found += [
                {
                    "log": log,
                    "segment": number,
                    "current": current,
                    "events": value(session, f"select count(*) from only {table}_{number}"),
                    "consumers": consumers,
                    "reason": reason,
                }
                for number, current, consumers, reason in rows(
                    session,
                    "select segment, is_current, consumers, reason from sluice.list_segments(%s)",
                    log,
                )
            ]
        return found

    def _reconcile(self) -> dict[str, Any]:
        with self._clusters.connect() as session:
            session.execute(UNWATCH_SLOTS)
            if self.is_drained:
                self._empty(session)
            snapshot = {
                "sent": [txn for (txn,) in rows(session, "select txn from sent")],
                "effects": rows(
                    session, "select consumer, item, key, n, settlement from effect order by id"
                ),
                "dead_letters": rows(
                    session,
                    """select concat_ws('/', queue_name, consumer_name),
                        coalesce(message, ev_data::jsonb) ->> 'item', reason
                    from sluice.dead_letter""",
                ),
                "fired": rows(
                    session,
                    """select name, to_char(slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'),
                        extract(epoch from slot)::float8, id
                    from fired""",
                ),
                "left": rows(
                    session,
                    " union all ".join(
                        f"select '{q}', message ->> 'item' from pgmq.q_{q}" for q in QUEUES
                    ),
                ),
                "waiting": [list(map(str, row)) for row in self._waiting(session)]
                if not self.is_drained
                else [],
                "segments": self._segments(session),
                "skipped": self._skipped,
                "differences": [*self._differences, *schema.verify(session)],
            }
        (self._folder / "snapshot.json").write_text(json.dumps(snapshot, default=str))
        (self._folder / "plan.json").write_text(json.dumps(asdict(self._plan)))
        return reconcile(self._folder)


def reconcile(folder: Path) -> dict[str, Any]:
    """Run the reconciler on a run's folder; return its figures and violations."""
    done = subprocess.run(
        [sys.executable, "-m", "chaos.everything.reconciler", str(folder)],
        cwd=TESTS,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert done.returncode == bool(found["violations"])
    return found
