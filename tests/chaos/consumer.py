"""A consumer of a share group that records its operations.

Usage: `python -m chaos.consumer URL HISTORY PROCESS SEED LEASE_S QTY_MAX WILDNESS`.

The outcome of an event follows from its number, so it is the same for every consumer: most are
accepted, with a row in the table `effect` in the same transaction; some always fail, some are
always rejected, some kill the consumer. The consumer is also slow, abandons claims and repeats
acknowledgements, until there is a file `calm` in the folder of the history. A file `stop` ends it.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psycopg

from chaos.checker import LEASE_LOST
from chaos.sessions import MICROSECONDS, NOW, connect, is_gone
from support.history import Log

LOG, GROUP = "orders", "workers"
# Period and offset, in the event numbers of a producer.
ALWAYS_FAILS, ALWAYS_REJECTED = (97, 5), (101, 7)
# Another session's claim takes seconds on a busy machine.
BUSY = "SG005"
CLAIM = f"""
    select c.claim_id, {MICROSECONDS.format("statement_timestamp()")}, {NOW},
        {MICROSECONDS.format("c.lease_until")}, c.ev_id, c.ev_data, c.attempt, c.deliveries
    from sluice.claim('{LOG}', '{GROUP}', %s, make_interval(secs => %s), %s) as c"""
ACKNOWLEDGE = f"""
    select sluice.acknowledge('{LOG}', '{GROUP}', %s, %s, %s, make_interval(secs => %s), %s)"""
RENEW = f"""
    select {MICROSECONDS.format(f"sluice.renew('{LOG}', '{GROUP}', %s, make_interval(secs => %s))")}"""
EFFECT = "insert into effect select %s, %s, e.* from unnest(%s::bigint[], %s::text[]) as e"


def is_one(value: str, kind: tuple[int, int]) -> bool:
    """True if the event with this value is of a kind. Values are `producer-number`."""
    every, place = kind
    return int(value.partition("-")[2]) % every == place


def kills(value: str) -> bool:
    """True if the event kills its consumer; only few do, as starting a process is slow."""
    return value.startswith("p0-") and is_one(value, (4001, 1501))


class Part(NamedTuple):
    """Outcome of some events of a claim; without ids, of all remaining ones."""

    outcome: str
    events: dict[int, str]
    delay_s: float | None = None
    without_numbers: bool = False


@dataclass
class Held:
    """A claim held by this consumer, with its unsettled events."""

    claim_id: int
    lease_s: float
    events: dict[int, str] = field(default_factory=dict)


class SettledBeforeError(Exception):
    """Some of the events were settled before: the transaction must be rolled back."""


class Consumer:
    """A consumer process; `run` ends when the file `stop` exists."""

    def __init__(
        self,
        url: str,
        history: Path,
        process: str,
        seed: int,
        lease_s: float,
        qty_max: int,
        wildness: float,
    ) -> None:
        self._url = url
        self._log = Log(history, process)
        self._process = process
        self._chance = random.Random(seed)
        self._lease_s = lease_s
        self._quantities = [qty for qty in (1, 5, 20, 100, 300) if qty <= qty_max]
        self._wildness = wildness
        self._folder = history.parent
        self._session = connect(url)
        self._settlements = 0

    def run(self) -> None:
        while not (self._folder / "stop").exists():
            if self._wildness > 0 and (self._folder / "calm").exists():
                self._wildness = 0
                # The last events are those that kill their consumers; shorter leases redeliver them
                # sooner.
                self._lease_s /= 2
            if self._session.closed:
                self._session = connect(self._url)
            held = self._claim()
            if held is None:
                time.sleep(0.03)
            else:
                self._handle(held)

    def _wild(self, probability: float) -> bool:
        return self._chance.random() < probability * self._wildness

    def _reply_is_lost(self) -> bool:
        """Occasionally kill the process, or lose its session, before the reply is recorded."""
        if self._wild(0.005):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._wild(0.005):
            self._session.close()
            return True
        return False

    def _claim(self) -> Held | None:
        qty = self._chance.choice(self._quantities)
        lease_s = self._lease_s * self._chance.choice([1, 1.5])
        synchronous = self._chance.random() < 0.5
        undone = self._wild(0.02)
        asked = {"qty": qty, "lease_us": int(lease_s * 1e6), "synchronous": synchronous}
        self._log.write("invoke", "claim", asked)
        try:
            if undone:
                self._session.execute("begin")
            found = self._session.execute(CLAIM, [qty, lease_s, synchronous]).fetchall()
            if self._reply_is_lost():
                self._log.write("info", "claim")
                return None
            if undone:
                time.sleep(0.01)
                self._session.execute("rollback")
                self._log.write("fail", "claim", {"code": "rolled back"})
                return None
        except psycopg.Error as error:
            if error.sqlstate == BUSY:
                self._fail("claim", error.sqlstate)
                return None
            if not is_gone(self._session, error):
                raise
            self._log.write("info", "claim")
            return None
        if not found:
            self._log.write("ok", "claim", {"events": []})
            return None
        claim_id, asked_at, given_at, lease_until = found[0][:4]
        self._log.write(
            "ok",
            "claim",
            {
                "claim": claim_id,
                "asked_at": asked_at,
                "given_at": given_at,
                "lease_until": lease_until,
                "events": [row[4:] for row in found],
            },
        )
        return Held(claim_id, lease_s, {row[4]: row[5] for row in found})

    def _handle(self, held: Held) -> None:
        time.sleep(self._chance.random() / 100)
        if self._wild(0.02):
            return  # abandon the claim
        if self._wild(0.06):
            time.sleep(held.lease_s * 0.6)
            self._renew(held)
            # Beyond the original end of the lease.
            time.sleep(held.lease_s * self._chance.choice([0, 0.6]))
        elif self._wild(0.02):
            time.sleep(held.lease_s * 1.1)  # beyond the lease
        parts = self._judge(held)
        if not parts:
            os.kill(os.getpid(), signal.SIGKILL)
        # In one transaction, or one for each part.
        for outcomes in [parts] if self._chance.random() < 0.5 else [[part] for part in parts]:
            known = self._settle(held, outcomes)
            if not known and self._chance.random() < 0.7:
                self._settle(held, outcomes)
            if self._wild(0.03):
                return  # abandon the rest
        if any(map(kills, held.events.values())):
            os.kill(os.getpid(), signal.SIGKILL)

    def _judge(self, held: Held) -> list[Part]:
        """Return the outcomes by event; none if an event kills the process immediately."""
        events: dict[str, dict[int, str]] = {"accept": {}, "retry": {}, "release": {}, "reject": {}}
        kill = False
        for ev_id, value in held.events.items():
            if kills(value):
                kill = True
            elif is_one(value, ALWAYS_FAILS) or self._wild(0.02):
                events["retry"][ev_id] = value
            elif is_one(value, ALWAYS_REJECTED):
                events["reject"][ev_id] = value
            else:
                events["release" if self._wild(0.02) else "accept"][ev_id] = value
        if kill and (self._chance.random() < 0.5 or not any(events.values())):
            return []
        delay_s = self._chance.choice([None, None, 0.0, 0.5])
        parts = [
            Part(outcome, of_outcome, delay_s if outcome == "retry" else None)
            for outcome, of_outcome in events.items()
            if of_outcome
        ]
        accepted = parts[0].events
        if self._wild(0.1) and parts[0].outcome == "accept" and len(accepted) > 1:
            half = dict(list(accepted.items())[: len(accepted) // 2])
            rest = {e: value for e, value in accepted.items() if e not in half}
            parts[:1] = [Part("accept", half), Part("accept", rest)]
        self._chance.shuffle(parts)
        if not kill and self._chance.random() < 0.5:
            parts[-1] = parts[-1]._replace(without_numbers=True)
        return parts

    def _settle(self, held: Held, parts: list[Part]) -> bool:
        """Settle in one transaction; return False if the outcome of the commit is unknown."""
        self._settlements += 1
        settlement = f"{self._process}-{self._settlements}"
        outcomes = [
            {
                "outcome": part.outcome,
                "ev_ids": list(part.events),
                "delay_us": None if part.delay_s is None else int(part.delay_s * 1e6),
            }
            for part in parts
        ]
        asked = {"settlement": settlement, "claim": held.claim_id, "parts": outcomes}
        self._log.write("invoke", "settle", asked)
        if self._session.closed:
            self._session = connect(self._url)
        try:
            self._session.execute("begin")
            at = self._now()
            for part in parts:
                self._acknowledge(held, part, settlement)
        except SettledBeforeError:
            self._fail("settle", "settled before")
            return True
        except psycopg.Error as error:
            if is_gone(self._session, error):
                self._log.write("fail", "settle", {"code": "session lost", "at": 0})
            else:
                self._fail("settle", error.sqlstate)
            return True
        if self._wild(0.1):
            time.sleep(0.03)  # claims continue before this commits
        try:
            self._session.execute("commit")
        except psycopg.Error as error:
            if not is_gone(self._session, error):
                raise
            self._log.write("info", "settle")
            return False
        if self._reply_is_lost():
            self._log.write("info", "settle")
            return False
        self._log.write("ok", "settle", {"at": at})
        for part in parts:
            for ev_id in part.events:
                del held.events[ev_id]
        return True

    def _acknowledge(self, held: Held, part: Part, settlement: str) -> None:
        ev_ids = list(part.events)
        error = settlement if part.outcome in ("retry", "reject") else None
        settled = self._session.execute(
            ACKNOWLEDGE,
            [
                held.claim_id,
                part.outcome,
                None if part.without_numbers else ev_ids,
                part.delay_s,
                error,
            ],
        ).fetchall()[0][0]
        if settled != len(ev_ids):
            raise SettledBeforeError
        if part.outcome == "accept":
            values = list(part.events.values())
            self._session.execute(EFFECT, [settlement, held.claim_id, ev_ids, values])

    def _renew(self, held: Held) -> None:
        self._log.write("invoke", "renew", {"claim": held.claim_id})
        try:
            at = self._now()
            row = self._session.execute(RENEW, [held.claim_id, held.lease_s]).fetchall()[0]
        except psycopg.Error as error:
            if is_gone(self._session, error):
                self._log.write("info", "renew")
            else:
                self._fail("renew", error.sqlstate)
        else:
            self._log.write("ok", "renew", {"at": at, "until": row[0]})

    def _now(self) -> int:
        return self._session.execute(f"select {NOW}").fetchall()[0][0]

    def _fail(self, name: str, code: str | None) -> None:
        """Record a refusal; raise unexpected errors, which end the process."""
        if code not in ("settled before", *LEASE_LOST, BUSY):
            raise
        try:
            self._session.execute("rollback")
            at = self._now()
        except psycopg.OperationalError:
            at = sys.maxsize
        self._log.write("fail", name, {"code": code, "at": at})


if __name__ == "__main__":
    url, history, process, seed, lease_s, qty_max, wildness = sys.argv[1:]
    Consumer(
        *(url, Path(history), process, int(seed)),
        *(float(lease_s), int(qty_max), float(wildness)),
    ).run()
