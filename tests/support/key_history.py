"""Histories of the consumers of a group with keys, one process each, and a checker of them.

A line is one of
    {"claim": id, "until": end of its lease, "events": [[ev_id, key], …], "at": time of its return}
    {"asked": id, "outcome": …, "ev_ids": [...], "at": time of its request}
    {"renewed": id, "until": …, "at": …}
with times in seconds since 1970, of one machine. A consumer writes a line before a request and
after a response: a request may take effect after its line, a response took effect before it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import psycopg

from support.share_groups import acknowledge, claim, renew

FINAL = ("accept", "reject")


def consume(url: str, path: str, seed: int) -> None:
    """Claim and acknowledge in all ways until killed."""
    chance = random.Random(seed)
    history = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(**line: object) -> None:
        os.write(history, (json.dumps({**line, "at": time.time()}) + "\n").encode())

    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            try:
                events = claim(connection, chance.randint(1, 6), "400 milliseconds")
            except psycopg.DatabaseError as error:
                if error.sqlstate != "SG005":
                    raise
                continue  # on a busy machine another claim can take more than two seconds
            if not events:
                time.sleep(0.002)
                continue
            claim_id = events[0].claim_id
            write(
                claim=claim_id,
                until=events[0].lease_until.timestamp(),
                events=[[event.ev_id, event.ev_extra1] for event in events],
            )
            try:
                settle(connection, chance, claim_id, [event.ev_id for event in events], write)
            except psycopg.Error as error:
                if error.sqlstate != "SG002":
                    raise


def settle(
    connection: Any, chance: random.Random, claim_id: int, ev_ids: list[int], write: Any
) -> None:
    way = chance.random()
    if way < 0.03:
        return  # like a dead consumer
    if way < 0.1:
        until = renew(connection, claim_id, "500 milliseconds")
        write(renewed=claim_id, until=until.timestamp())
    if way < 0.5:
        write(asked=claim_id, outcome="accept", ev_ids=ev_ids)
        acknowledge(connection, claim_id)
        return
    for ev_id in ev_ids if way < 0.9 else chance.sample(ev_ids, len(ev_ids)):
        time.sleep(chance.random() / 500)
        outcome = chance.choices(["accept", "retry", "release", "reject"], [12, 2, 2, 1])[0]
        delay = (
            "20 milliseconds" if outcome in ("retry", "release") and chance.random() < 0.5 else None
        )
        write(asked=claim_id, outcome=outcome, ev_ids=[ev_id])
        acknowledge(connection, claim_id, outcome, [ev_id], delay=delay)


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of all consumers, without incomplete ones of killed consumers."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]


def judge(lines: list[dict[str, Any]], sent: dict[int, str | None], *, in_order: bool) -> list[str]:
    """Return violations; `in_order`: no event may overtake an unfinished one of its key."""
    claims = sorted((line for line in lines if "claim" in line), key=lambda line: line["claim"])
    asked: dict[int, list[dict[str, Any]]] = defaultdict(list)
    final: dict[int, float] = {}
    for line in lines:
        if "asked" in line:
            asked[line["asked"]].append(line)
            if line["outcome"] in FINAL:
                for ev_id in line["ev_ids"]:
                    final[ev_id] = min(final.get(ev_id, line["at"]), line["at"])
    ends = {line["claim"]: line["until"] for line in claims}
    for line in lines:
        if "renewed" in line:
            ends[line["renewed"]] = max(ends[line["renewed"]], line["until"])

    by_key: dict[str, list[int]] = defaultdict(list)
    for ev_id, key in sorted(sent.items()):
        if key is not None:
            by_key[key].append(ev_id)
    wrong = [f"event {ev_id} was not settled" for ev_id in sent if ev_id not in final]
    last: dict[str, dict[str, Any]] = {}
    for line in claims:
        of_key: dict[str, list[int]] = defaultdict(list)
        for ev_id, key in line["events"]:
            if key is not None:
                of_key[key].append(ev_id)
        for key, ev_ids in of_key.items():
            name = f"claim {line['claim']} of {key}{ev_ids}"
            if ev_ids != sorted(ev_ids) and in_order:
                wrong.append(f"{name} is not in the order of the log")
            before = last.get(key)
            if before is not None and ends[before["claim"]] > line["at"]:
                held = [ev_id for ev_id, other in before["events"] if other == key]
                held = [
                    e
                    for e in held
                    if e not in given_back(held, asked[before["claim"]], line["at"], in_order)
                ]
                if held:
                    wrong.append(f"{name} while claim {before['claim']} has {held}")
            if in_order:
                passed = [
                    ev_id
                    for ev_id in by_key[key][: by_key[key].index(max(ev_ids))]
                    if ev_id not in ev_ids and final.get(ev_id, line["at"]) >= line["at"]
                ]
                if passed:
                    wrong.append(f"{name} passes {passed}")
            last[key] = line
    return wrong


def given_back(held: list[int], asked: list[dict[str, Any]], at: float, in_order: bool) -> set[int]:
    """Return the events of a claim and key that may have been settled at this time."""
    done: set[int] = set()
    for line in asked:
        if line["at"] <= at:
            done |= set(line["ev_ids"])
            if in_order and line["outcome"] not in FINAL:
                first = min((e for e in line["ev_ids"] if e in held), default=None)
                done |= {e for e in held if first is not None and e > first}
    return done


if __name__ == "__main__":
    consume(sys.argv[1], sys.argv[2], int(sys.argv[3]))
