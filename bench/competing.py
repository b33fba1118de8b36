"""Adapters for competing consumers: claim and complete messages in each system."""

from __future__ import annotations

from typing import Any, Protocol

import psycopg

from bench.systems.pgmq import Pgmq

NAME = "bench"
DATA = '{"order": 4711, "state": "paid", "note": "' + "x" * 60 + '"}'  # about 100 bytes
LEASE_S = 60
TRANSACTION = 10_000  # messages per transaction of a bulk fill


class Competing(Protocol):
    """Queue whose messages are distributed to competing consumers."""

    schemas: tuple[str, ...]

    def create(self, session: psycopg.Connection[Any]) -> None:
        """Create it."""

    def drop(self, session: psycopg.Connection[Any]) -> None:
        """Drop it with its messages."""

    def fill(self, session: psycopg.Connection[Any], messages: int) -> None:
        """Fill it with a backlog: ticked, vacuumed, after a checkpoint."""

    def send(self, session: psycopg.Connection[Any], messages: int) -> None:
        """Send messages in one call."""

    def claim(self, session: psycopg.Connection[Any], qty: int) -> tuple[Any, int]:
        """Claim up to `qty` messages; return the token to complete them with, and their number."""

    def complete(self, session: psycopg.Connection[Any], claimed: Any) -> None:
        """Acknowledge the messages."""

    def completed(self, session: psycopg.Connection[Any]) -> int:
        """Return the number of messages completed since it was created or filled."""

    def cycle(self, qty: int) -> str:
        """Return a pgbench script that claims and completes messages."""


class ShareGroup:
    """A share group of a log."""

    schemas: tuple[str, ...] = ("pgq", "sluice")

    def __init__(self, name: str = NAME) -> None:
        self._name = name

    def create(self, session: psycopg.Connection[Any]) -> None:
        session.execute("select pgq.create_queue(%s)", [self._name])
        session.execute(
            "select sluice.create_group(%s, %s, jsonb_build_object('lease', %s::text))",
            [self._name, self._name, f"{LEASE_S} s"],
        )

    def drop(self, session: psycopg.Connection[Any]) -> None:
        session.execute("select sluice.drop_group(%s, %s)", [self._name, self._name])
        session.execute("select pgq.drop_queue(%s, true)", [self._name])

    def fill(self, session: psycopg.Connection[Any], messages: int) -> None:
        ((table,),) = session.execute("select pgq.current_event_table(%s)", [self._name]).fetchall()
        for first in range(0, messages, TRANSACTION):
            session.execute(
                f"insert into {table} (ev_type, ev_data) select 'type', %s from generate_series(1, %s)",
                [DATA, min(TRANSACTION, messages - first)],
            )
            session.execute("select pgq.force_tick(%s), pgq.ticker(%s)", [self._name, self._name])
        session.execute(f"vacuum analyze {table}")
        session.execute("checkpoint")

    def send(self, session: psycopg.Connection[Any], messages: int) -> None:
        session.execute(
            """select count(*) from sluice.insert_events(
                %s::text, array_fill('type'::text, array[%s::integer]), array_fill(%s::text, array[%s::integer])
            )""",
            [self._name, messages, DATA, messages],
        )

    def claim(self, session: psycopg.Connection[Any], qty: int) -> tuple[Any, int]:
        rows = session.execute(
            "select * from sluice.claim(%s, %s, %s::integer, synchronous => false)",
            [self._name, self._name, qty],
        ).fetchall()
        return (rows[0][0] if rows else None), len(rows)

    def complete(self, session: psycopg.Connection[Any], claimed: int) -> None:
        session.execute(
            "select sluice.acknowledge(%s, %s, %s::bigint)", [self._name, self._name, claimed]
        )

    def completed(self, session: psycopg.Connection[Any]) -> int:
        ((events,),) = session.execute(
            """select coalesce(sum(o.events), 0)
               from sluice.outcome as o
               join sluice.share_group as g using (group_id)
               where g.group_name = %s and o.outcome = 'accept'""",
            [self._name],
        ).fetchall()
        return int(events)

    def cycle(self, qty: int) -> str:
        return (
            "select max(claim_id) as claim, count(*) as events\n"
            f"from sluice.claim('{self._name}', '{self._name}', {qty}, synchronous => false) \\gset\n"
            f"select sluice.acknowledge('{self._name}', '{self._name}', :claim);"
        )


class WorkQueue:
    """A queue of PGMQ."""

    schemas: tuple[str, ...] = ("pgmq",)

    def __init__(self) -> None:
        self._filled = 0

    def create(self, session: psycopg.Connection[Any]) -> None:
        self._filled = 0
        session.execute("select pgmq.create(%s)", [NAME])

    def drop(self, session: psycopg.Connection[Any]) -> None:
        session.execute("select pgmq.drop_queue(%s)", [NAME])

    def fill(self, session: psycopg.Connection[Any], messages: int) -> None:
        for first in range(0, messages, TRANSACTION):
            self.send(session, min(TRANSACTION, messages - first))
        session.execute(f"vacuum analyze pgmq.q_{NAME}")
        session.execute("checkpoint")
        self._filled += messages

    def send(self, session: psycopg.Connection[Any], messages: int) -> None:
        session.execute(
            "select count(*) from pgmq.send_batch(%s::text, array_fill(%s::jsonb, array[%s::integer]))",
            [NAME, DATA, messages],
        )

    def claim(self, session: psycopg.Connection[Any], qty: int) -> tuple[Any, int]:
        rows = session.execute(
            "select * from pgmq.read(%s, %s::integer, %s::integer)", [NAME, LEASE_S, qty]
        ).fetchall()
        return [row[0] for row in rows], len(rows)

    def complete(self, session: psycopg.Connection[Any], claimed: list[int]) -> None:
        if len(claimed) == 1:
            session.execute("select pgmq.delete(%s, %s::bigint)", [NAME, claimed[0]])
        else:
            session.execute("select count(*) from pgmq.delete(%s, %s::bigint[])", [NAME, claimed])

    def completed(self, session: psycopg.Connection[Any]) -> int:
        ((left,),) = session.execute(f"select count(*) from pgmq.q_{NAME}").fetchall()
        return self._filled - int(left)

    def cycle(self, qty: int) -> str:
        if qty == 1:
            return (
                f"select msg_id from pgmq.read('{NAME}', {LEASE_S}, 1) \\gset\n"
                f"select pgmq.delete('{NAME}', (:msg_id)::bigint);"
            )
        return (
            f"select array_agg(msg_id) as ids from pgmq.read('{NAME}', {LEASE_S}, {qty}) \\gset\n"
            f"select count(*) from pgmq.delete('{NAME}', (:ids)::bigint[]);"
        )


_SYSTEMS: dict[str, Competing] = {}


def competing(system: str) -> Competing:
    """Return the adapter of a system by name; ours is a share group."""
    if system not in _SYSTEMS:
        _SYSTEMS[system] = WorkQueue() if system == Pgmq.name else ShareGroup()
    return _SYSTEMS[system]
