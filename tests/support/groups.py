"""Consumers of FIFO groups that record a history, and a checker of the history.

A violation is a history that no order of the operations within their intervals can explain, so
there are no false positives. An acknowledgement counts from its invocation, and a claim from its
response.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from support.history import NEVER, Log, Operation

VT_S = 1


def ids(op: Operation) -> list[int]:
    """Return the messages that a claim returned, or that a finish or release was invoked with."""
    return op.asked or op.answer or []


def violations(history: list[Operation], group_of: dict[int, str]) -> Iterator[str]:
    """Yield violations of in-order delivery of each group to one consumer at a time.

    A claim made in a transaction (`claim to roll back`) delivers too, but holds nothing after the
    rollback.
    """
    claims = [op for op in history if op.name.startswith("claim") and op.outcome == "ok"]
    # The earliest end of a message; and the operations that may have released it.
    gone: dict[int, float] = {}
    freed: dict[int, list[Operation]] = {}
    for op in history:
        if op.name in ("finish", "give back") and op.outcome != "fail":
            (msg_id,) = ids(op)
            freed.setdefault(msg_id, []).append(op)
            if op.name == "finish":
                gone[msg_id] = min(gone.get(msg_id, NEVER), op.invoked)
    members: dict[str, list[int]] = {}
    for msg_id in sorted(group_of):
        members.setdefault(group_of[msg_id], []).append(msg_id)

    for claim in claims:
        for place, msg_id in enumerate(ids(claim)):
            for earlier in members[group_of[msg_id]]:
                if earlier >= msg_id:
                    break
                if earlier not in ids(claim)[:place] and gone.get(earlier, NEVER) > claim.ended:
                    yield f"{claim}: {msg_id} before {earlier}, which is there"
    yield from _shared(claims, freed, group_of)


def _shared(
    claims: list[Operation], freed: dict[int, list[Operation]], group_of: dict[int, str]
) -> Iterator[str]:
    """Yield claims in a group with a message that an earlier claim certainly holds."""
    by_group: dict[str, list[Operation]] = {}
    for claim in claims:
        for group in {group_of[msg_id] for msg_id in ids(claim)}:
            by_group.setdefault(group, []).append(claim)
    for group, of_group in by_group.items():
        for holder in of_group:
            if holder.name == "claim to roll back":
                continue
            for other in of_group:
                if not holder.ended < other.invoked or other.ended > holder.invoked + VT_S:
                    continue
                held = [
                    msg_id
                    for msg_id in ids(holder)
                    if group_of[msg_id] == group
                    and not any(
                        freeing.invoked <= other.ended and freeing.ended >= holder.invoked
                        for freeing in freed.get(msg_id, [])
                    )
                ]
                if held:
                    yield f"{other} while {held} of its group are held by {holder}"


def consume(url: str, reader: str, seed: int, log: Log) -> None:
    """Claim, and finish, release, abandon or roll back, until killed. Replace lost sessions."""
    source = random.Random(seed)
    session = None
    while True:
        doing = None
        try:
            if session is None:
                session = psycopg.connect(url, autocommit=True, application_name="group consumer")
            action = source.choices(["finish", "give back", "forget", "roll back"], [20, 2, 1, 2])[
                0
            ]
            call = f"select msg_id from pgmq.{reader}('orders', {VT_S}, {source.choice([1, 2, 5])})"
            if action == "roll back":
                session.execute("begin")
            doing = "claim to roll back" if action == "roll back" else "claim"
            log.write("invoke", doing)
            found = [row[0] for row in session.execute(call).fetchall()]
            log.write("ok", doing, found)
            doing = None
            # The duration of a handler, sometimes longer than its claim.
            time.sleep(source.random() / 100 if source.random() < 0.98 else VT_S * 1.2)
            if action == "roll back":
                session.execute("rollback")
            elif action != "forget":
                # Released in ascending order, the group would continue before the rest is visible.
                for msg_id in found if action == "finish" else reversed(found):
                    doing = action
                    log.write("invoke", doing, [msg_id])
                    if action == "finish":
                        session.execute("select pgmq.delete('orders', %s)", [msg_id])
                    else:
                        session.execute("select pgmq.set_vt('orders', %s, 0)", [msg_id])
                    log.write("ok", doing, [msg_id])
                    doing = None
        except psycopg.OperationalError:
            if doing:
                log.write("info", doing)
            session = None


if __name__ == "__main__":
    consume(sys.argv[1], sys.argv[2], int(sys.argv[3]), Log(Path(sys.argv[4]), sys.argv[5]))
