"""Dumps of databases, and logs in every state."""

from __future__ import annotations

import itertools
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from support import rows, value

PLAIN = ("behind", "middle", "inside", "retrying")  # and `coop`, with its members `one` and `two`
GROUPS = ("plain", "keyed")


def dump_and_restore(old: Any, new: Any, *options: str) -> None:
    bin_dir = Path(old.server.bin_dir)
    dump = subprocess.run(
        [bin_dir / "pg_dump", "--format=custom", old.url], check=True, capture_output=True
    )
    subprocess.run(
        [bin_dir / "pg_restore", "--exit-on-error", *options, "--dbname", new.url],
        input=dump.stdout,
        check=True,
        capture_output=True,
    )


def next_id(connection: psycopg.Connection) -> int:
    return value(connection, "select pg_current_xact_id()::text::bigint")


def burn_ids(connection: psycopg.Connection, upto: int) -> None:
    """Consume transaction ids until the next one is at least `upto`."""
    while (left := upto - next_id(connection)) > 0:
        connection.execute(
            f"""do $$ begin for i in 1..{min(left, 5000)}
            loop perform pg_current_xact_id(); commit; end loop; end $$"""
        )


class Logs:
    """Logs with consumers in every state, and the events expected by each.

    Events are identified by their data. `wanted` counts for each consumer the events that it has
    not finished.
    """

    def __init__(self, names: tuple[str, ...] = ("first", "second")) -> None:
        self.names = names
        self.wanted: dict[tuple[str, str], Counter[str]] = {}
        self.held: dict[tuple[str, str], list[tuple[int, list[str]]]] = {}
        self._numbers = itertools.count(1)

    def create(self, connection: psycopg.Connection) -> None:
        for log in self.names:
            connection.execute("select pgq.create_queue(%s)", (log,))
            for consumer in PLAIN:
                connection.execute("select pgq.register_consumer(%s, %s)", (log, consumer))
                self.wanted[log, consumer] = Counter()
            for member in ("one", "two"):
                connection.execute(
                    "select pgq_coop.register_subconsumer(%s, 'coop', %s)", (log, member)
                )
            self.wanted[log, "coop"] = Counter()
            for group in GROUPS:
                options = '{"backoff_base": "0 s", "lease": "1 hour"%s}' % (
                    ', "key": "ev_type"' if group == "keyed" else ""
                )
                connection.execute("select sluice.create_group(%s, %s, %s)", (log, group, options))
                self.wanted[log, group] = Counter()

    def insert(
        self, connection: psycopg.Connection, log: str, count: int = 1, delay: str | None = None
    ) -> None:
        """Insert events for all consumers; several share a key."""
        for number in itertools.islice(self._numbers, count):
            data = f"{log} {number}"
            key = f"key {number % 3}"
            if delay is None:
                connection.execute("select pgq.insert_event(%s, %s, %s)", (log, key, data))
            else:
                connection.execute(
                    "select sluice.insert_event(%s, %s, %s, delay => %s::interval)",
                    (log, key, data, delay),
                )
            for (owner, _), events in self.wanted.items():
                if owner == log:
                    events[data] += 1

    def batch(self, connection: psycopg.Connection, log: str, consumer: str) -> int | None:
        if consumer in ("one", "two"):
            return value(connection, "select pgq_coop.next_batch(%s, 'coop', %s)", log, consumer)
        return value(connection, "select pgq.next_batch(%s, %s)", log, consumer)

    def finish(
        self, connection: psycopg.Connection, log: str, consumer: str, retry: str | None = None
    ) -> bool:
        """Finish the next batch; with a delay, retry its first event."""
        batch = self.batch(connection, log, consumer)
        if batch is None:
            return False
        found = rows(
            connection, "select ev_id, ev_data from pgq.get_batch_events(%s) order by 1", batch
        )
        wanted = self.wanted[log, "coop" if consumer in ("one", "two") else consumer]
        wanted.subtract(data for _, data in found)
        if retry is not None and found:
            connection.execute(
                "select pgq.event_retry(%s, %s, now() + %s::interval)", (batch, found[0][0], retry)
            )
            wanted[found[0][1]] += 1
        schema = "pgq_coop" if consumer in ("one", "two") else "pgq"
        connection.execute(f"select {schema}.finish_batch(%s)", (batch,))
        return True

    def claim(self, connection: psycopg.Connection, log: str, group: str, count: int) -> None:
        """Claim events and hold them."""
        found = rows(
            connection,
            "select claim_id, ev_data from sluice.claim(%s, %s, %s)", log, group, count,
        )  # fmt: skip
        if found:
            events = [data for _, data in found]
            self.held.setdefault((log, group), []).append((found[0][0], events))

    def settle(
        self, connection: psycopg.Connection, log: str, group: str, outcome: str = "accept"
    ) -> bool:
        """Settle the oldest held claim."""
        held = self.held.get((log, group))
        if not held:
            return False
        claim_id, events = held.pop(0)
        assert len(events) == value(
            connection, "select sluice.acknowledge(%s, %s, %s, %s)", log, group, claim_id, outcome
        )
        if outcome == "accept":
            self.wanted[log, group].subtract(events)
        return True

    def go_on(self, connection: psycopg.Connection, late: psycopg.Connection) -> None:
        """Bring each consumer and claim into another state; `late` commits after two ticks."""
        for log in self.names:
            self.insert(late, log, 2)
            self.insert(connection, log, 4)
            self.insert(connection, log, 1, "0 s")
            self.insert(connection, log, 1, "1 s")
            connection.execute("select sluice.log_tick(%s)", (log,))
            self.finish(connection, log, "middle")
            self.finish(connection, log, "retrying", "0 s")
            self.finish(connection, log, "one")
            for group in GROUPS:
                self.claim(connection, log, group, 2)
                self.settle(connection, log, group)
                self.claim(connection, log, group, 1)
                self.settle(connection, log, group, "retry")
            self.insert(connection, log, 3)
            connection.execute("select sluice.log_tick(%s)", (log,))
            self.insert(connection, log, 2)
            connection.execute("select sluice.log_tick(%s)", (log,))
            self.finish(connection, log, "middle")
            self.finish(connection, log, "retrying", "1 s")
            self.finish(connection, log, "two")
        late.commit()
        connection.execute("select pgq.maint_retry_events()")
        for log in self.names:
            connection.execute("select sluice.log_tick(%s)", (log,))
            self.finish(connection, log, "inside")
            self.batch(connection, log, "inside")
            self.batch(connection, log, "one")
            for group in GROUPS:
                self.claim(connection, log, group, 2)
                self.claim(connection, log, group, 1)
                self.settle(connection, log, group, "release")
                self.claim(connection, log, group, 2)
            self.finish(connection, log, "retrying", "0 s")
            self.insert(connection, log, 1)

    def consume_all(self, connection: psycopg.Connection) -> None:
        """Let every consumer finish all due events."""
        for _ in range(3):
            while value(connection, "select pgq.maint_retry_events()"):
                pass
            for log in self.names:
                connection.execute("select sluice.log_tick(%s)", (log,))
                for consumer in (*PLAIN, "one", "two"):
                    while self.finish(connection, log, consumer):
                        pass
                for group in GROUPS:
                    while self.settle(connection, log, group):
                        pass
                    while not self.is_idle(connection, log, group):
                        pass

    def is_idle(self, connection: psycopg.Connection, log: str, group: str) -> bool:
        self.claim(connection, log, group, 5)
        return not self.settle(connection, log, group)

    def missing_and_repeated(self) -> dict[tuple[str, str], dict[str, int]]:
        """Return for each consumer the missing (1) and repeated (-1) events."""
        return {
            place: left
            for place, events in self.wanted.items()
            if (left := {data: count for data, count in events.items() if count})
        }
