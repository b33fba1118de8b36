"""`pgsluice queue tail`: follow a queue without claiming messages."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from pgsluice.cli.clients import STEP, work_queue
from pgsluice.cli.options import dsn_option, json_lines_option, name_argument
from pgsluice.cli.output import print_lines
from pgsluice.cli.types import Duration
from pgsluice.client import StoredMessage, WorkQueue

# Maximum number of missing ids to look for; each poll queries all of them.
GAPS_MAX = 10_000
# Distance from the last id at which a message may be uncommitted when the follower starts.
START_GAPS_MAX = 1_000


class Follower:
    """Returns each message of a queue once, also one that commits after messages with higher ids.

    An id is assigned when a message is sent, and the message becomes visible at commit. A gap below a visible id is
    therefore an open transaction, a rolled-back one, or a deleted message. The follower looks for the ids of gaps for a
    limited time, in the queue, archive and dead letters.
    """

    def __init__(
        self,
        work: WorkQueue,
        queue_name: str,
        after_msg_id: int | None,
        look_back_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start after an id, or at the end if it is None."""
        self._work = work
        self._queue_name = queue_name
        self._look_back_s = look_back_s
        self._clock = clock
        self._gaps: dict[int, float] = {}  # id → deadline of the search, earliest first
        # Of the ids assigned so far, those found anywhere are old, and those not found may be uncommitted.
        self._last_known = work.metrics(queue_name).total_messages
        self._add_gaps(max(1, self._last_known - START_GAPS_MAX + 1), self._last_known + 1)
        for message in work.get_messages(queue_name, list(self._gaps)):
            self._gaps.pop(message.msg_id, None)
        self._last = self._last_known if after_msg_id is None else after_msg_id

    def poll(self) -> list[StoredMessage]:
        """Return messages since the last call in order of id: at most 1,000 new ones, and those that filled gaps."""
        page = self._work.browse(self._queue_name, after_msg_id=self._last, qty=STEP)
        for message in page:
            self._gaps.pop(message.msg_id, None)
            self._add_gaps(self._last_known + 1, message.msg_id)
            self._last_known = max(self._last_known, message.msg_id)
            self._last = message.msg_id
        return sorted(page + self._found_in_gaps(), key=lambda message: message.msg_id)

    def _found_in_gaps(self) -> list[StoredMessage]:
        now = self._clock()
        found: list[StoredMessage] = []
        # Ids above the last one are found by `browse`.
        if passed := [msg_id for msg_id in self._gaps if msg_id <= self._last]:
            found += (
                message
                for message in self._work.get_messages(self._queue_name, passed)
                if self._gaps.pop(message.msg_id, None) is not None
            )
        self._gaps = {msg_id: end for msg_id, end in self._gaps.items() if end > now}
        return found

    def _add_gaps(self, first: int, end: int) -> None:
        """Add the ids from the first to the end, exclusive, to the gaps."""
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
    help="Start after this msg_id; 0 prints all messages.  [default: new messages only]",
)
@click.option(
    "--poll-interval",
    "poll_interval_s",
    type=Duration(min_s=0.01),
    default="500ms",
    show_default=True,
    help="Time between two polls.",
)
@click.option(
    "--look-back",
    "look_back_s",
    type=Duration(),
    default="1m",
    show_default=True,
    help="Maximum duration of a sending transaction; messages of a longer transaction may be missed.",
)
@click.option("--until-empty", is_flag=True, help="Exit when a poll finds no message.")
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
    """Print new messages, each once, without claiming them, until Ctrl-C.

    Prints in order of msg_id, apart from messages that commit late. Misses messages that are deleted or popped between
    two polls.
    """
    try:
        with work_queue(dsn) as work:
            follower = Follower(work, queue_name, after_msg_id, look_back_s)
            while True:
                found = follower.poll()
                print_lines(found)
                if until_empty and not found:
                    return
                if not found:
                    time.sleep(poll_interval_s)
    except KeyboardInterrupt:
        return
