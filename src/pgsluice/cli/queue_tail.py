"""`pgsluice queue tail`: follow a queue without claiming anything."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from pgsluice.cli.clients import STEP, work_queue
from pgsluice.cli.options import dsn_option, json_lines_option, name_argument
from pgsluice.cli.output import print_lines
from pgsluice.client import StoredMessage, WorkQueue

# Ids that may still come, at most: each look asks for all of them.
GAPS_MAX = 10_000
# How far behind the end a message may be that was sent, and not committed, when the following began.
START_GAPS_MAX = 1_000


class Follower:
    """Finds each message of a queue once, also one that commits after others with higher ids.

    Ids are given out when a message is sent, and messages appear when they are committed. So an id that is missing
    below one that is there may belong to a transaction that is still open, or to one that was rolled back, or to a
    message that is deleted already. It is looked for by its id for a while, wherever it has got to since.
    """

    def __init__(
        self,
        work: WorkQueue,
        queue_name: str,
        after_msg_id: int | None,
        look_back_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin after an id, or with None at the end."""
        self._work = work
        self._queue_name = queue_name
        self._look_back_s = look_back_s
        self._clock = clock
        self._gaps: dict[int, float] = {}  # id → until when it is looked for, the earliest first
        # Of the ids given out by now, what is archived or dead has come before, and what is nowhere may still come.
        self._noted = work.metrics(queue_name).total_messages
        self._note(max(1, self._noted - START_GAPS_MAX + 1), self._noted + 1)
        for message in work.get_messages(queue_name, list(self._gaps)):
            self._gaps.pop(message.msg_id, None)
        self._last = self._noted if after_msg_id is None else after_msg_id

    def look(self) -> list[StoredMessage]:
        """Return what has come since the last look, by id: a thousand new ones, at most, and those that came late."""
        page = self._work.browse(self._queue_name, after_msg_id=self._last, qty=STEP)
        for message in page:
            self._gaps.pop(message.msg_id, None)
            self._note(self._noted + 1, message.msg_id)
            self._noted = max(self._noted, message.msg_id)
            self._last = message.msg_id
        return sorted(page + self._late(), key=lambda message: message.msg_id)

    def _late(self) -> list[StoredMessage]:
        now = self._clock()
        found: list[StoredMessage] = []
        # What is not passed by yet comes by itself.
        if passed := [msg_id for msg_id in self._gaps if msg_id <= self._last]:
            found += (
                message
                for message in self._work.get_messages(self._queue_name, passed)
                if self._gaps.pop(message.msg_id, None) is not None
            )
        self._gaps = {msg_id: end for msg_id, end in self._gaps.items() if end > now}
        return found

    def _note(self, first: int, end: int) -> None:
        """Look for the ids from the first up to, and without, the end."""
        until = self._clock() + self._look_back_s
        self._gaps |= dict.fromkeys(range(max(first, end - GAPS_MAX), end), until)
        for msg_id in list(self._gaps)[: max(0, len(self._gaps) - GAPS_MAX)]:
            del self._gaps[msg_id]


@click.command()
@name_argument
@click.option(
    "--after",
    "after_msg_id",
    type=int,
    metavar="MSG_ID",
    help="Begin with what is there after this id; 0: with everything.  [default: only what is new]",
)
@click.option(
    "--poll-interval",
    "poll_interval_s",
    type=click.FloatRange(min=0.01),
    default=0.5,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option(
    "--look-back",
    "look_back_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds for which an id that was passed by is looked for; longer transactions that send are missed.",
)
@click.option("--until-empty", is_flag=True, help="End when a look finds nothing.")
@json_lines_option
@dsn_option
def tail(
    queue_name: str,
    after_msg_id: int | None,
    poll_interval_s: float,
    look_back_s: float,
    until_empty: bool,
    dsn: str | None,
) -> None:
    """Print messages as they come, each once, without claiming any; until Ctrl-C, with exit code 0.

    They come by id; one that is committed late comes late. One that is deleted, or taken by pop, between two looks is
    not seen.
    """
    try:
        with work_queue(dsn, queue_name) as work:
            follower = Follower(work, queue_name, after_msg_id, look_back_s)
            while True:
                found = follower.look()
                print_lines(found)
                if until_empty and not found:
                    return
                if not found:
                    time.sleep(poll_interval_s)
    except KeyboardInterrupt:
        return
