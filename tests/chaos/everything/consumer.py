"""Consume and write effects: `python -m chaos.everything.consumer FOLDER NAME SEED KIND ARGUMENT…`.

    group LOG GROUP         a consumer of a share group
    batch LOG CONSUMER      a consumer of tick batches; with a MEMBER after it, a subconsumer
    queue QUEUE             a reader of a work queue

An effect is a row of the table `effect`, written in the transaction that acknowledges. The history
has the settlements whose commit succeeded; the reconciler checks their effects.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import psycopg

from chaos.everything.actor import Actor, StaleError, arguments
from chaos.everything.layout import CONSUMERS, LEASE_S

EFFECT = """
    insert into effect (consumer, item, key, n, settlement)
    select %s, e.item, e.key, e.n, %s
    from unnest(%s::text[], %s::text[], %s::integer[]) with ordinality as e (item, key, n, place)
    order by e.place"""
DEAD_MEMBER = "2 seconds"


class Body:
    """The contents of an item; a scheduled item is named after its `ev_id` or slot."""

    def __init__(
        self, text: str | dict, *, ev_id: int | None = None, headers: dict | None = None
    ) -> None:
        found = text if isinstance(text, dict) else json.loads(text)
        if "group_name" in found:
            found = json.loads(found["ev_data"])
        slot = (headers or {}).get("x-pgmq-schedule", {})
        name = f"{slot['name']}@{slot['slot']}" if slot else f"beat {ev_id}"
        self.item: str = found.get("item", name)
        self.key: str | None = found.get("key")
        self.n: int | None = found.get("n")
        self.rule: str = found.get("rule", "accept")


class Consumer(Actor):
    """A consumer of any kind."""

    def settle(
        self, consumer: str, settlement: str, bodies: list[Body], *, prepare: bool = False
    ) -> None:
        """Write effects and commit, or prepare the transaction for the upkeep to end."""
        if bodies:
            columns = [[b.item for b in bodies], [b.key for b in bodies], [b.n for b in bodies]]
            self.session.execute(EFFECT, [consumer, settlement, *columns])
        if prepare:
            self.session.execute(f"prepare transaction '{settlement}'")
            return
        if self.wild(0.002):
            os.kill(os.getpid(), signal.SIGKILL)
        self.log.write("invoke", "settle", {"settlement": settlement, "effects": len(bodies)})
        try:
            self.session.execute("commit")
        except psycopg.Error:
            self.log.write("info", "settle")
            raise
        self.log.write("ok", "settle")

    # Share groups

    def claim(self, log: str, group: str) -> None:
        """Claim events of a share group and settle them."""
        qty = self.chance.choice([1, 5, 20, 60])
        found = self.session.execute(
            "select claim_id, ev_id, ev_data from sluice.claim(%s, %s, %s, make_interval(secs => %s), %s)",
            [log, group, qty, LEASE_S, self.chance.random() < 0.5],
        ).fetchall()
        if not found:
            time.sleep(0.05)
            return
        if self.wild(0.02):
            return  # abandon the claim: the lease expires
        claim_id = found[0][0]
        if self.wild(0.02):
            time.sleep(LEASE_S * 0.5)
            self.session.execute(
                "select sluice.renew(%s, %s, %s, make_interval(secs => %s))",
                [log, group, claim_id, LEASE_S],
            )
            time.sleep(LEASE_S * self.chance.choice([0.2, 1.1]))
        elif self.wild(0.01):
            time.sleep(LEASE_S * 1.2)
        parts = self._judge(
            [(ev_id, Body(data)) for _, ev_id, data in found], is_keyed=group == "keyed"
        )
        for part in [parts] if self.chance.random() < 0.5 else [[part] for part in parts]:
            self._acknowledge(log, group, claim_id, part)

    def _judge(
        self, events: list[tuple[int, Body]], *, is_keyed: bool
    ) -> list[tuple[str, dict[int, Body]]]:
        """Return outcomes with their events, except those behind a retried event of their key."""
        parts: dict[str, dict[int, Body]] = {"accept": {}, "reject": {}, "release": {}, "retry": {}}
        waiting = set()
        for ev_id, body in events:
            outcome = body.rule
            if is_keyed and body.key in waiting:
                continue
            if outcome == "accept" and self.wild(0.03):
                outcome = self.chance.choice(["release", "retry"])
            if outcome in ("release", "retry"):
                waiting.add(body.key)
            parts[outcome][ev_id] = body
        return [(outcome, part) for outcome, part in parts.items() if part]

    def _acknowledge(self, log: str, group: str, claim_id: int, parts: list) -> None:
        settlement = self.next_name()
        self.session.execute("begin")
        effects: list[Body] = []
        for outcome, events in parts:
            (settled,) = self.session.execute(
                "select sluice.acknowledge(%s, %s, %s, %s, %s)",
                [log, group, claim_id, outcome, list(events)],
            ).fetchall()[0]
            if settled < len(events):
                raise StaleError
            if outcome == "accept":
                effects += events.values()
        if self.wild(0.05):
            time.sleep(0.1)  # claims continue before this commits
        self.settle(f"{log}/{group}", settlement, effects, prepare=self.wild(0.03))

    # Tick batches

    def take_batch(self, log: str, consumer: str, member: str | None) -> None:
        """Open a batch, write the effects of its events and finish it."""
        if member is None:
            query, parameters = "select pgq.next_batch(%s, %s)", [log, consumer]
        else:
            query = "select pgq_coop.next_batch(%s, %s, %s, %s::interval)"
            parameters = [log, consumer, member, DEAD_MEMBER]
        try:
            (batch,) = self.session.execute(query, parameters).fetchall()[0]
        except psycopg.errors.Error as error:
            if error.sqlstate != "PQ004" or "is busy" not in str(error):
                raise
            batch = None  # the previous session has not ended
        if batch is None:
            time.sleep(0.05)
            return
        if self.wild(0.03):
            time.sleep(2.5 if member else 0.5)
        settlement = self.next_name()
        self.session.execute("begin")
        found = self.session.execute(
            "select ev_id, ev_data, ev_retry from pgq.get_batch_events(%s) order by ev_id", [batch]
        ).fetchall()
        retries = next(c.retries for c in CONSUMERS if c.name == consumer and c.log == log)
        again, effects = [], []
        for ev_id, data, ev_retry in found:
            if retries and ev_retry is None and self.wild(0.05):
                again.append(ev_id)
            else:
                effects.append(Body(data, ev_id=ev_id))
        if again:
            self.session.execute(
                "select sluice.retry(%s, %s, make_interval(secs => %s))",
                [batch, again, self.chance.choice([0, 0.3, 1])],
            )
        finish = "pgq_coop.finish_batch" if member else "pgq.finish_batch"
        if self.session.execute(f"select {finish}(%s)", [batch]).fetchall() != [(1,)]:
            raise StaleError
        self.settle(f"{log}/{consumer}", settlement, effects, prepare=self.wild(0.03))

    # Work queues

    def read(self, queue: str) -> None:
        """Read messages; archive those whose claim is current, and fail others by their rules."""
        found = self.session.execute(
            "select msg_id, read_ct, message, headers from sluice.claim_messages(%s, 2, %s)",
            [queue, self.chance.choice([1, 5, 20])],
        ).fetchall()
        if not found:
            time.sleep(0.05)
            return
        if self.wild(0.02):
            return
        if self.wild(0.01):
            time.sleep(2.3)
        done: dict[int, tuple[int, Body]] = {}
        failed = []
        for msg_id, read_ct, message, headers in found:
            body = Body(message, headers=headers)
            if body.rule == "accept" and not self.wild(0.02):
                done[msg_id] = (read_ct, body)
            else:
                failed.append(
                    {"msg_id": msg_id, "read_ct": read_ct, "reject": body.rule == "reject"}
                )
        settlement = self.next_name()
        self.session.execute("begin")
        effects = []
        if done:
            outcomes = self.session.execute(
                "select msg_id, outcome from sluice.archive(%s, %s::bigint[], %s::integer[])",
                [queue, list(done), [read_ct for read_ct, _ in done.values()]],
            ).fetchall()
            effects = [done[msg_id][1] for msg_id, outcome in outcomes if outcome == "done"]
        if failed:
            self.session.execute(
                "select from sluice.fail(%s, %s::jsonb)", [queue, json.dumps(failed)]
            )
        self.settle(queue, settlement, effects, prepare=self.wild(0.03))


def main(folder: Path, name: str, seed: int, kind: str, *rest: str) -> None:
    """Consume until the end of the run."""
    consumer = Consumer(folder, name, seed)
    if kind == "group":
        consumer.run(lambda: consumer.claim(*rest))
    elif kind == "batch":
        log, of_log, member = (*rest, None)[:3]
        consumer.run(lambda: consumer.take_batch(log, of_log, member))
    else:
        consumer.run(lambda: consumer.read(*rest))


if __name__ == "__main__":
    main(*arguments())
