"""Hours of a database with a queue, a log with a consumer and a share group, a schedule and a worker, on a fake clock."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import psycopg

from pgsluice.client import EventLog, FailedMessage, Message, ShareGroup, WorkQueue
from support import rows, value
from support.clock import Clock
from support.servers import Database

QUEUE, LOG, CONSUMER, GROUP, SCHEDULE, WORKER = "q", "l", "c", "g", "hourly", "w"
LEASE_S = 600
PHASES = ("idle", "busy", "failing", "paused", "unmaintained", "unread", "restarted")


class World:
    """The driver: it does what applications, workers, maintenance and operators do, and keeps what the tables do not tell.

    Attributes:
        connection: A session of the application, in autocommit mode.
        other: A session with a transaction that may be open.
        is_maintained: True while a process leads the maintenance.
        has_worker: True while the worker reports.
        claimed: Messages that a reader holds.
        finished: Messages that left the queue.
        consumed: Events that the consumer has finished, by ev_id and transaction id.
        group_claimed: Events that the share group has claimed, by ev_id.
        outstanding: Events that the group has claimed and not settled: the end of the lease, or None after a retry.
        claims: The end of the lease and the events of claims that nothing has settled, oldest claim first.
    """

    def __init__(self, database: Database, clock: Clock, seed: int) -> None:
        self.database, self.clock, self.dice = database, clock, random.Random(seed)
        self.connect()
        self.work.create(QUEUE)
        self.log.create(LOG)
        self.log.register_consumer(LOG, CONSUMER)
        self.group.create(start="earliest", lease_s=LEASE_S)
        self.connection.execute(
            "select sluice.schedule(%s, %s, '{}'::jsonb, every => interval '1 hour')",
            (SCHEDULE, QUEUE),
        )
        self.is_maintained = self.has_worker = True
        self.claimed: list[Message] = []
        self.finished = 0
        self.consumed: set[tuple[int, str]] = set()
        self.group_claimed: set[int] = set()
        self.outstanding: dict[int, datetime | None] = {}
        self.claims: dict[int, tuple[datetime, list[int]]] = {}

    def connect(self) -> None:
        """Connect, as after a restart of the server."""
        self.connection = self.database.connect()
        self.other = self.database.connect(autocommit=False)
        self.work, self.log = WorkQueue(self.connection), EventLog(self.connection)
        self.group = ShareGroup(self.connection, LOG, GROUP)

    def close(self) -> None:
        """Close the sessions."""
        self.connection.close()
        self.other.close()

    def now(self) -> datetime:
        """Return the time of the server."""
        found = value(self.connection, "select clock_timestamp()")
        assert isinstance(found, datetime)
        return found

    def restart(self) -> None:
        """Restart the server; sessions and open transactions are lost."""
        self.close()
        self.database.server.stop("fast")
        self.database.server.start()
        self.connect()

    def live(self, phase: str) -> None:
        """Live some minutes or hours of a phase."""
        if phase == "restarted":
            self.restart()
        self.is_maintained = phase != "unmaintained"
        if not self.is_maintained:
            self.connection.execute("select sluice.resign('maintenance', pg_backend_pid())")
        self.has_worker = phase not in ("unread", "unmaintained")
        if (phase == "paused") != bool(self.work.queue_options(QUEUE).paused_at):
            self.work.set_queue_options(QUEUE, paused=phase == "paused")
        if phase == "failing":
            self.note_failure("an error")
        for _ in range(self.dice.randint(4, 12)):
            self.act(phase)
        self.pass_time(phase)
        for _ in range(0 if phase in ("idle", "unread") else self.dice.randint(0, 3)):
            self.act(phase)
        self.maintain()

    def note_failure(self, error: str | None) -> None:
        """Record that a maintenance step has failed, or succeeded."""
        self.connection.execute("select sluice._note_failure('rotate', %s, null, %s)", (LOG, error))

    def pass_time(self, phase: str) -> None:
        """Let the clock go on; an open transaction has ended by then."""
        self.other.commit()
        longest_s = 30 * 3600 if phase in ("unread", "idle") else 3 * 3600
        self.clock.shift(self.dice.choice((5, 45, 200, 700, 1500, 5000, longest_s)))

    def maintain(self) -> None:
        """Run the maintenance and the reports that are due by now, as the processes that run them would."""
        session = self.connection
        session.execute("select pg_stat_force_next_flush()")
        if self.has_worker:
            session.execute(
                "select sluice.report_worker(%s, 'app', 'host', 1, '0', array['queue ' || %s], null, '1 h', '[]', '{}', "
                "pg_backend_pid())",
                (WORKER, QUEUE),
            )
        if not self.is_maintained:
            return
        if self.dice.random() < 0.5:
            self.note_failure(None)
        session.execute("select pgq.maint_retry_events()")
        session.execute("select count(*) from sluice.maintain_groups()")
        session.execute("select count(*) from sluice.maintain()")
        session.execute("select count(*) from sluice.fire_schedules()")
        session.execute("select count(*) from sluice.tick()")
        session.execute(
            "select setval('sluice.sample_turn', 1)"
        )  # as if no samples were just taken
        session.execute("select sluice.take_samples('10 s')")
        session.execute("select sluice.lead('maintenance', pg_backend_pid(), '3 s')")

    def act(self, phase: str) -> None:
        """Do one thing that is usual in a phase."""
        if phase == "idle":
            return
        writes = ("send", "delay", "roll back", "insert", "insert", "begin", "commit")
        reads = (
            "read",
            "read",
            "settle",
            "settle",
            "pop",
            "consume",
            "consume",
            "claim",
            "claim",
            "acknowledge",
        )
        fails = (
            "read",
            "fail",
            "fail",
            "reject",
            "claim",
            "retry events",
            "reject events",
            "retry batch",
        )
        kinds = {
            "busy": writes + reads,
            "failing": ("send", "insert", "read", "claim", "consume", *fails),
            "paused": (*writes, "consume", "claim", "acknowledge", "settle"),
            "unmaintained": writes + reads,
            "unread": writes,
            "restarted": writes + reads,
        }[phase]
        kind = self.dice.choice(kinds)
        getattr(self, f"do_{kind.replace(' ', '_')}")()

    def do_send(self) -> None:
        self.work.send_batch(QUEUE, list(range(self.dice.randint(1, 4))))

    def do_delay(self) -> None:
        self.work.send_batch(QUEUE, [1], delay=self.dice.choice((100, 4000)))

    def do_roll_back(self) -> None:
        with self.connection.transaction(force_rollback=True):
            self.work.send(QUEUE, 1)
            self.log.insert_event(LOG, "t", "rolled back")

    def do_insert(self) -> None:
        self._insert(self.connection, self.dice.randint(1, 4))

    def do_begin(self) -> None:
        self._insert(self.other, 1)

    def do_commit(self) -> None:
        self.other.commit()

    def _insert(self, session: psycopg.Connection, number: int) -> None:
        session.execute(
            "select pgq.insert_event(%s, 't', 'd') from generate_series(1, %s)", (LOG, number)
        )

    def do_read(self) -> None:
        if self.work.queue_options(QUEUE).paused_at is None:
            vt = self.dice.choice((30, 300, 300, 9000))
            self.claimed += self.work.read(QUEUE, vt, self.dice.randint(1, 3))

    def do_pop(self) -> None:
        self.finished += len(self.work.pop(QUEUE, 1))

    def do_settle(self) -> None:
        if self.claimed:
            message = self.claimed.pop(self.dice.randrange(len(self.claimed)))
            how = self.dice.choice((self.work.archive, self.work.delete))
            self.finished += how(QUEUE, message.msg_id)

    def do_fail(self) -> None:
        if self.claimed:
            failed = FailedMessage(
                self.claimed.pop(), error="no", delay_min_s=self.dice.choice((500, 20_000))
            )
            (outcome,) = self.work.fail(QUEUE, [failed])
            self.finished += outcome.outcome == "dead"

    def do_reject(self) -> None:
        if self.claimed:
            message = self.claimed.pop()
            self.finished += self.work.reject(QUEUE, message.msg_id, message.read_ct, "bad")

    def do_consume(self, *, is_retried: bool = False) -> None:
        batch = value(self.connection, "select pgq.next_batch(%s, %s)", LOG, CONSUMER)
        if batch is None:
            return
        found = rows(
            self.connection, "select ev_id, ev_txid::text from pgq.get_batch_events(%s)", batch
        )
        if is_retried and found:
            self.connection.execute("select pgq.event_retry(%s, %s, 0)", (batch, found[0][0]))
        self.connection.execute("select pgq.finish_batch(%s)", (batch,))
        self.connection.execute("select pgq.maint_retry_events()")
        self.consumed.update(found)

    def do_retry_batch(self) -> None:
        self.do_consume(is_retried=True)

    def do_claim(self) -> None:
        for event in self.group.claim(self.dice.randint(1, 4)):
            self.group_claimed.add(event.ev_id)
            self.outstanding[event.ev_id] = event.lease_until
            self.claims.setdefault(event.claim_id, (event.lease_until, []))[1].append(event.ev_id)

    def _settle_events(self, outcome: str) -> None:
        """Settle events of the oldest claim, all or some, unless its lease has ended."""
        if not self.claims:
            return
        claim_id, (until, ev_ids) = next(iter(self.claims.items()))
        del self.claims[claim_id]
        if until < self.now() + timedelta(seconds=5):
            return
        settled = self.dice.sample(ev_ids, self.dice.randint(1, len(ev_ids)))
        delay = self.dice.choice(("10 s", "20000 s")) if outcome == "retry" else None
        self.connection.execute(
            "select sluice.acknowledge(%s, %s, %s, %s, %s, %s::interval, 'no', 'reason')",
            (LOG, GROUP, claim_id, outcome, settled, delay),
        )
        for ev_id in settled:
            if outcome == "retry":
                self.outstanding[ev_id] = None
            else:
                self.outstanding.pop(ev_id, None)

    def do_acknowledge(self) -> None:
        self._settle_events("accept")

    def do_retry_events(self) -> None:
        self._settle_events("retry")

    def do_reject_events(self) -> None:
        self._settle_events("reject")


def seconds(before: Any, now: datetime) -> float:
    """Return the seconds since a time; 0 for None."""
    return 0.0 if before is None else max(0.0, (now - before).total_seconds())
