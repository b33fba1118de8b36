"""Send items in transactions of every kind.

Usage: `python -m chaos.everything.producer FOLDER NAME SEED TXNS PER_S`.

Each transaction writes its name to the table `sent`, so the database shows which ones were
committed. The history has the items of the commit (`items`) and those that a savepoint rolled back
(`undone`).
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path

import psycopg

from chaos.everything.actor import Actor, Stopped, arguments
from chaos.everything.layout import LOADED, LOGS, QUEUES

KEYS = 4
SAVEPOINTS = 70  # more than the 64 subtransactions that PostgreSQL caches per session
DELAY_S_MAX = 3


class Producer(Actor):
    """One producer; sends `txns` transactions."""

    def __init__(self, folder: Path, name: str, seed: int, txns: int, per_s: float) -> None:
        super().__init__(folder, name, seed)
        self._txns = txns
        self._per_s = per_s
        self._places: dict[str, int] = defaultdict(int)
        self._items = 0

    def produce(self) -> None:
        """Send the transactions at about this rate."""
        begun = time.monotonic()
        try:
            for number in range(self._txns):
                time.sleep(max(0.0, begun + number / self._per_s - time.monotonic()))
                if self.is_on("stop"):
                    return
                self.attempt(self._send)
        except Stopped:
            pass

    def _send(self) -> None:
        # A commit with an unknown outcome may still be in progress, so earlier keys are not reused.
        session = self.session
        txn = self.next_name()
        how = self.chance.choices(
            ["plain", "large", "savepoints", "prepared", "delayed", "old snapshot"],
            [60, 8, 4, 10, 10, 8],
        )[0]
        key = f"{self.name}.{self.generation}.{self.chance.randrange(KEYS)}"
        if how in ("prepared", "delayed"):
            key = f"{txn}.{how}"
        count = {"large": self.chance.randint(10, 40), "savepoints": SAVEPOINTS}.get(
            how, self.chance.randint(1, 4)
        )
        items: dict[str, list[dict[str, object]]] = defaultdict(list)
        undone: list[object] = []
        target = self.chance.choice(LOADED)
        plan = []
        for _ in range(count):
            if how in ("plain", "savepoints"):
                target = self.chance.choice(LOADED)
            is_undone = how == "savepoints" and self.chance.random() < 0.2
            item = self._new_item(f"{txn}.{self._items}" if how == "delayed" else key)
            plan.append((target, item, is_undone))
            (undone if is_undone else items[target]).append(item)  # type: ignore[attr-defined]
        self.log.write(
            "invoke", "send", {"txn": txn, "items": items, "undone": [i["item"] for i in undone]}
        )  # type: ignore[index]
        rolled_back = self.chance.random() < 0.07
        try:
            self._insert(session, txn, how, plan)
            if self.chance.random() < 0.05:
                time.sleep(self.chance.random() * 1.5)  # commits after later claims and ticks
            if rolled_back:
                session.execute("rollback")
                self.log.write("fail", "send")
                return
            if how == "prepared":
                session.execute(f"prepare transaction '{txn}'")
                self.log.write("info", "send")  # the upkeep commits or rolls back
                return
        except psycopg.Error:
            # A prepare whose reply was lost may have happened.
            self.log.write("info" if how == "prepared" else "fail", "send")
            raise
        try:
            session.execute("commit")
        except psycopg.Error:
            self.log.write("info", "send")
            session.close()  # the next generation uses new keys
            raise
        self.log.write("ok", "send")

    def _new_item(self, key: str) -> dict[str, object]:
        self._items += 1
        self._places[key] += 1
        rule = self.chance.choices(["accept", "reject", "retry"], [97, 2, 1])[0]
        return {
            "item": f"{self.name}:{self._items}",
            "key": key,
            "n": self._places[key],
            "rule": rule,
        }

    def _insert(self, session: psycopg.Connection, txn: str, how: str, plan: list) -> None:
        session.execute(
            "begin isolation level repeatable read" if how == "old snapshot" else "begin"
        )
        if how == "old snapshot":
            session.execute("select from sent limit 1")
            time.sleep(self.chance.random())
        if how == "large" and plan[0][0] in LOGS:
            self._insert_many(session, plan[0][0], [item for _, item, _ in plan])
        else:
            for target, item, is_undone in plan:
                if how == "savepoints":
                    session.execute("savepoint s")
                self._insert_one(session, target, item, delayed=how == "delayed")
                if is_undone:
                    session.execute("rollback to savepoint s")
        session.execute("insert into sent values (%s)", [txn])

    def _insert_one(
        self, session: psycopg.Connection, target: str, item: dict, *, delayed: bool
    ) -> None:
        body = json.dumps(item)
        if target in QUEUES:
            headers = json.dumps({"x-pgmq-group": item["key"]})
            delay = self.chance.randint(0, DELAY_S_MAX) if delayed else 0
            session.execute(
                "select pgmq.send(%s, %s::jsonb, %s::jsonb, %s)", [target, body, headers, delay]
            )
        elif delayed:
            session.execute(
                "select sluice.insert_event(%s, 't', %s, delay => make_interval(secs => %s), ev_extra1 => %s)",
                [target, body, self.chance.random() * DELAY_S_MAX, item["key"]],
            )
        else:
            session.execute(
                "select pgq.insert_event(%s, 't', %s, %s, null, null, null)",
                [target, body, item["key"]],
            )

    def _insert_many(self, session: psycopg.Connection, target: str, items: list[dict]) -> None:
        if self.chance.random() < 0.5:
            session.execute(
                "select sluice.insert_events(%s, %s, %s, %s)",
                [
                    target,
                    ["t"] * len(items),
                    [json.dumps(i) for i in items],
                    [i["key"] for i in items],
                ],
            )
            return
        (table,) = session.execute("select pgq.current_event_table(%s)", [target]).fetchall()[0]
        with session.cursor().copy(
            f"copy {table} (ev_type, ev_data, ev_extra1) from stdin"
        ) as copy:
            for item in items:
                copy.write_row(("t", json.dumps(item), item["key"]))


def main(folder: Path, name: str, seed: int, txns: int, per_s: float) -> None:
    """Send all transactions."""
    Producer(folder, name, seed, int(txns), float(per_s)).produce()


if __name__ == "__main__":
    main(*arguments())
