"""A plain loop instead of a worker: PGMQ's design, read, do, archive, with long polling or notifications.

`poll` waits in the server (`read_with_poll`), which needs nothing else. `listen` waits for notifications, which
`pgsluice maintain` sends, and looks every 30 seconds in case one is missed; without maintenance it polls. A loop has no
heartbeat, no retry policy and no dead letters: a message whose program dies is visible again after `vt` seconds.

    pgsluice schema install
    pgsluice queue create letters
    pgsluice queue send letters '"first"' '"second"'
    python consume_loop.py poll
    pgsluice queue send letters '"third"'
    python consume_loop.py listen

The last command prints

    third
"""

from __future__ import annotations

import sys

from pgsluice import Listener, WorkQueue, connect, resolve

QUEUE, VT_S, WAIT_S = "letters", 30, 2


def handle(queue: WorkQueue, wait_s: float = 0) -> int:
    """Handle up to ten messages, waiting for the first; return their number."""
    if wait_s:
        messages = queue.read_with_poll(QUEUE, VT_S, 10, max_poll_seconds=int(wait_s))
    else:
        messages = queue.read(QUEUE, VT_S, 10)
    for message in messages:
        print(message.message)
        (settled,) = queue.archive_claimed(QUEUE, [message])
        if settled.outcome != "done":  # it took longer than VT_S, and another reader may have it
            print("too late:", message.msg_id)
    return len(messages)


def poll() -> None:
    """Read with long polling until nothing has come for two seconds."""
    with connect() as connection:
        while handle(WorkQueue(connection), WAIT_S):
            pass


def listen() -> None:
    """Read when a notification arrives, until none has for two seconds."""
    with (
        Listener(resolve().conninfo) as listener,
        connect() as connection,
        listener.subscribe(QUEUE) as subscription,
    ):
        while handle(WorkQueue(connection)) or subscription.wait(WAIT_S):
            pass


if __name__ == "__main__":
    {"poll": poll, "listen": listen}[sys.argv[1]]()
