"""One slice of a long run: load, a held snapshot, a crash restart, the drain, and the accounts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg

from bench.endurance import parts
from bench.endurance.numbers import Counter
from bench.endurance.parts import Part
from bench.endurance.processes import Processes
from bench.endurance.sampling import Sampler
from pgsluice import EventLog, schema
from pgsluice.connection import connect
from pgsluice.embedded import EmbeddedServer
from pgsluice.embedded.account import for_server
from pgsluice.errors import SluiceError

# Of a slice: when the snapshot is held, and when the server crashes.
HELD_FROM, HELD_TO, CRASH = 1 / 6, 1 / 3, 1 / 2
# Of a slice: after a start, caches are cold, and all processes connect.
STARTING, STARTING_MAX_S = 1 / 20, 30.0
STALLED_S = 180.0
POLL_S = 0.05
XIDS_PER_SEGMENT = 32 * 4 * 8192
FREEZE_MAX_AGE = 200_000_000  # autovacuum_freeze_max_age by default


class Slice:
    """A slice on a running server.

    Attributes:
        before: Messages sent in earlier slices.
        report: Accounts and events of the slice, for the result.
    """

    def __init__(
        self, folder: Path, server: EmbeddedServer, part: Part, sizes: dict[str, int]
    ) -> None:
        """Prepare; nothing is started.

        Args:
            folder: Folder of the part.
            server: Its running server, with the part set up.
            part: The part.
            sizes: Values of `parts.OPTIONS`.
        """
        self._folder, self._server, self._part, self._sizes = folder, server, part, sizes
        self._seconds = sizes["slice_seconds"]
        self._sent = Counter(folder / "producer")
        self._counters = {name: Counter(folder / name) for name in part.counters}
        self._starting_until = 0.0
        self._holder: psycopg.Connection[Any] | None = None
        self._crashed = self._has_held = False
        self._number, self._offset_s, self._begin = 0, 0.0, 0.0
        self.before = 0
        self.report: dict[str, Any] = {}

    def run(self, number: int, offset_s: float, samples: Path) -> None:
        """Run it, and append its samples to a file.

        Args:
            number: Its number, from 1.
            offset_s: Seconds of load in earlier slices.
            samples: File of the samples.

        Raises:
            SluiceError: A process ended, messages are no longer handled, or one was lost.
        """
        self._number, self._offset_s = number, offset_s
        with ExitStack() as stack:
            with connect(self._server.url(), autocommit=True) as session:
                session.execute(parts.COMPACT)
                self.before = self._accounts(session).get(parts.SENT, (0, 0))[0]
            for name in (*self._part.counters, "producer"):
                (self._folder / name).unlink(missing_ok=True)
            processes = Processes(self._folder, self._server.url(), self._part, self._sizes)
            stack.callback(processes.kill)
            processes.start_readers(self.before)
            self._await(processes, "maintenance and the worker to start", self._has_readers)
            # After a kill, messages of the last slice may be left.
            self._drain(processes, self.before)
            sampler = Sampler(self._server, self._folder / "probe.out")
            stack.callback(sampler.close)
            processes.start_load(self._sizes[self._part.target])
            self._await(
                processes,
                "the first messages to be done",
                lambda: self._done > self.before or processes.has_ended("producer"),
            )
            self._begin = time.monotonic()
            self._sample_all(processes, sampler, samples)
            load_s = time.monotonic() - self._begin
            processes.stop("producer", "probe", "updates")
            with connect(self._server.url(), autocommit=True) as after:
                sent = self._accounts(after)[parts.SENT][0]
            self._drain(processes, sent)
            processes.stop()
        self.report |= {"slice": number, "load_s": round(load_s, 1), **self._require_accounts(sent)}

    def _sample_all(self, processes: Processes, sampler: Sampler, file: Path) -> None:
        """Sample until the end of the slice or the target; hold the snapshot, and crash the server."""
        due = self._begin
        self._start()
        with file.open("a", encoding="utf-8") as lines:
            while (now := time.monotonic()) < self._begin + self._seconds:
                processes.require_running()
                self._events(now - self._begin)
                if now >= due:
                    due = max(due + self._sizes["sample_seconds"], now)
                    flags = [
                        *(["starting"] if now < self._starting_until else []),
                        *(["held"] if self._holder is not None else []),
                    ]
                    sample = sampler.sample(
                        processes.pids, slice=self._number, at_s=round(self._offset_s + now - self._begin, 2),
                        done=self._done, sent=max(self.before, self._sent.read()[0]), flags=flags,
                    )  # fmt: skip
                    if sample is not None:
                        lines.write(sample.line() + "\n")
                        lines.flush()
                elif processes.has_ended("producer"):
                    break
                time.sleep(POLL_S)
        if self._holder is not None:
            self._release()

    def _start(self) -> None:
        self._starting_until = time.monotonic() + min(STARTING_MAX_S, STARTING * self._seconds)

    def _events(self, at_s: float) -> None:
        """Hold or release the snapshot, or crash the server, when it is time."""
        place = at_s / self._seconds
        if HELD_FROM <= place < HELD_TO and not self._has_held:
            self._has_held = True
            self._holder = connect(self._server.url())
            self._holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            self._holder.execute("select from pgmq.meta")
            self.report["held_s"] = -at_s
        elif place >= HELD_TO and self._holder is not None:
            self.report["held_s"] = round(at_s + self.report["held_s"])
            self._release()
        elif place >= CRASH and not self._crashed:
            self._crashed = True
            begin = time.monotonic()
            self._server.stop("immediate")
            self._server.start()
            self.report["crash_at_s"] = round(at_s)
            self.report["recovery_s"] = round(time.monotonic() - begin, 1)
            self._start()

    def _release(self) -> None:
        assert self._holder is not None
        with suppress(psycopg.Error):
            self._holder.rollback()
        self._holder.close()
        self._holder = None

    @property
    def _done(self) -> int:
        """Messages that every process has, since the start of the run."""
        return min(counter.read()[0] for counter in self._counters.values())

    def _has_readers(self) -> bool:
        """Return True if maintenance leads, and all processes that handle messages have connected."""
        with connect(self._server.url(), autocommit=True) as session:
            ((leads,),) = session.execute(
                "select is_active from sluice.leader('maintenance')"
            ).fetchall()
        return bool(leads) and all(counter.exists for counter in self._counters.values())

    def _await(self, processes: Processes, what: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition.

        Raises:
            SluiceError: A process ended, or the condition was not met in time.
        """
        deadline = time.monotonic() + STALLED_S
        while not condition():
            processes.require_running()
            if time.monotonic() > deadline:
                raise SluiceError(
                    f"waited {STALLED_S:.0f} s for {what}; see the logs in {self._folder}"
                )
            time.sleep(POLL_S)

    def _drain(self, processes: Processes, sent: int) -> None:
        """Wait until every process has every message, and the server has them settled.

        Raises:
            SluiceError: A process ended, or nothing is handled any more.
        """
        seen, since = (-1, -1), time.monotonic()
        while True:
            processes.require_running()
            left = self._left()
            if self._done >= sent and left == 0:
                return
            if (self._done, left) != seen:
                seen, since = (self._done, left), time.monotonic()
            elif time.monotonic() - since > STALLED_S:
                raise SluiceError(
                    f"{sent - self._done} of {sent} messages are not done and {left} not settled, and none was for "
                    f"{STALLED_S:.0f} s; see the logs in {self._folder}"
                )
            time.sleep(0.2)

    def _left(self) -> int:
        """Return the messages that are in the queue, or that consumers and the group have not settled."""
        with connect(self._server.url(), autocommit=True) as session:
            if not self._part.is_log:
                ((left,),) = session.execute(f"select count(*) from pgmq.q_{parts.NAME}").fetchall()
                return int(left)
            accounts = self._accounts(session)
            lags = [accounts.get(parts.CHANGED, (0, 0))[0] - accounts.get(parts.AUDIT, (0, 0))[0]]
            for info in EventLog(session).list_groups(parts.NAME):
                lags += [info.lag_events, info.leased, info.retrying]
            return sum(map(abs, lags))

    def _accounts(self, session: psycopg.Connection[Any]) -> dict[str, tuple[int, int]]:
        return {
            who: (events, int(total))
            for who, events, total in session.execute(parts.ACCOUNTED).fetchall()
        }

    def _require_accounts(self, sent: int) -> dict[str, Any]:
        """Compare what was sent with what was done, and return both.

        Raises:
            SluiceError: They differ.
        """
        with connect(self._server.url(), autocommit=True) as session:
            accounts = self._accounts(session)
            ((dead,),) = session.execute("select count(*) from sluice.dead_letter").fetchall()
        handled, redelivered = self._counters["worker"].read()
        wrong = [f"{dead} dead letters"] if dead else []
        if handled != sent:
            wrong.append(f"the worker handled {handled} of {sent}")
        if self._part.is_log:
            wrong += [f"consumer {name}: {accounts[name]} of {accounts[parts.SENT]}"
                      for name in parts.CONSUMERS if accounts[name] != accounts[parts.SENT]]  # fmt: skip
            changed, audited = (
                accounts.get(name, (0, 0))[0] for name in (parts.CHANGED, parts.AUDIT)
            )
            if changed != audited:
                wrong.append(f"captured changes: {audited} of {changed}")
        if wrong:
            raise SluiceError(
                f"messages are lost or doubled in slice {self._number}: {'; '.join(wrong)}"
            )
        return {"sent": sent - self.before, "redelivered": redelivered,
                "accounts": {who: events for who, (events, _) in accounts.items()}}  # fmt: skip


def set_up(server: EmbeddedServer, part: Part, sizes: dict[str, int]) -> None:
    """Create the objects of a part in a running server, and age its tables.

    Afterwards the oldest transaction id is `xids_before_freeze` before autovacuum_freeze_max_age, so that the
    run passes the point at which autovacuum must freeze all tables.
    """
    with psycopg.connect(server.url()) as connection:
        schema.install(connection)
        connection.execute(parts.ACCOUNTS)
        for statement in part.setup.split(";"):
            connection.execute(
                statement,
                {name: number for name, number in sizes.items() if f"%({name})s" in statement},
            )
        ((oldest,),) = connection.execute(
            "select min(datfrozenxid::text::bigint) from pg_database"
        ).fetchall()
    server.stop()
    next_id = int(oldest) + FREEZE_MAX_AGE - sizes["xids_before_freeze"]
    account = for_server(server.data)
    # pg_resetwal does not create the page of the commit log for that id.
    segment = server.data / "pg_xact" / f"{next_id // XIDS_PER_SEGMENT:04X}"
    account.run(["/bin/sh", "-c", 'head -c 262144 /dev/zero > "$0"', segment])
    answer: subprocess.CompletedProcess[str] = account.run(
        [Path(server.bin_dir) / "pg_resetwal", "-x", str(next_id), "-D", server.data]
    )
    if answer.returncode:
        raise SluiceError(f"pg_resetwal failed: {answer.stdout.strip()}")
    server.start()
