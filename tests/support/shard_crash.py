"""Kill a change of the directory at each of its steps, repeat it, and look where the messages are.

A program: `python shard_crash.py FILE KEY QTY`. It prints one JSON object per kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import psycopg

from pgsluice.client._sync.runner import Runner
from pgsluice.ops.shards import move
from pgsluice.shards import Shards

_run = Runner.run


def killing(step: int, *, is_before: bool):
    """Return a `Runner.run` that kills this process before or after its call of this number."""
    count = 0

    def run(self, call):
        nonlocal count
        count += 1
        if count == step and is_before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = _run(self, call)
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return run


def in_child(path: str, key: str, to: str, run) -> int:
    """Move a key in a process of its own; return its exit status."""
    pid = os.fork()
    if pid == 0:
        Runner.run = run
        try:
            move(Shards.load(path), key, to)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def places(shards: Shards, key: str) -> dict[str, list[int]]:
    """Return the numbers of the key's messages by shard, in the order of msg_id, and what is on the way."""
    found = {}
    for name in shards.names:
        with psycopg.connect(shards.dsn(name)) as connection:
            rows = connection.execute(
                "select (message ->> 'n')::int from pgmq.q_orders where headers ->> 'x-pgmq-group' = %s order by msg_id",
                (key,),
            )
            found[name] = [row[0] for row in rows]
            rows = connection.execute("select msg_id from sluice.moving_message")
            found[f"{name} moving"] = [row[0] for row in rows]
    return found


def main(path: str, key: str) -> None:
    """Kill each step in turn; the key moves there and back."""
    for is_before in (True, False):
        step = 0
        while True:
            step += 1
            shards = Shards.load(path)
            origin = shards.home(key)
            to = next(name for name in shards.names if name != origin)
            was_killed = in_child(path, key, to, killing(step, is_before=is_before)) != 0
            again = in_child(path, key, to, _run) if was_killed else 0
            found = {
                "step": step,
                "before": is_before,
                "killed": was_killed,
                "again": again,
                "to": to,
            }
            print(json.dumps(found | {"places": places(shards, key)}), flush=True)
            if not was_killed:
                break


if __name__ == "__main__":
    main(*sys.argv[1:])
