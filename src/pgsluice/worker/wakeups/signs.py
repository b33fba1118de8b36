"""What a listener has heard, and what that proves: decisions without I/O. Times are this process's monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

# In heartbeats: silence after which the connection is asked, and the time that it has to answer. Together a connection
# that is dead is found dead within two.
SILENCE = 1.5
ANSWER = 0.5
# What says that its sender stops.
_GONE = "gone"


class ListenerState(StrEnum):
    """How a listener fares.

    Attributes:
        CONNECTING: There is no connection, or none that has proved itself yet. Those who wait poll.
        LISTENING: Notifications arrive. Those who wait poll rarely.
        NO_NOTIFIER: The connection is good, but nobody notifies of queues. Those who wait for one poll.
        NO_TICKER: The connection is good, but nobody notifies of logs. Those who wait for one poll.
        POOLED: There is a pooler between that lends the server's connections for a transaction, through which nothing
            arrives. Those who wait poll.
        DEAF: The server answers, but nothing arrives. Those who wait poll, and the listener connects anew.
        CLOSED: It was closed, or not started yet. Those who wait poll.
    """

    CONNECTING = "connecting"
    LISTENING = "listening"
    NO_NOTIFIER = "no notifier"
    NO_TICKER = "no ticker"
    POOLED = "pooled"
    DEAF = "deaf"
    CLOSED = "closed"


class Kind(StrEnum):
    """What can be waited for, or proves something."""

    QUEUE = "queue"
    LOG = "log"


class Place(NamedTuple):
    """A work queue or an event log that somebody waits for."""

    kind: Kind
    name: str


SIGN_CHANNELS = {"sluice.notifier": Kind.QUEUE, "sluice.ticker": Kind.LOG}

REASONS = {
    ListenerState.LISTENING: "notifications arrive",
    ListenerState.NO_NOTIFIER: "no notifier is at work in this database; run `pgsluice maintain` or `pgsluice notify`",
    ListenerState.NO_TICKER: "no ticker is at work in this database; run `pgsluice maintain`",
    ListenerState.POOLED: "there is a pooler in transaction mode between, through which no notification comes; give "
    "the listener an address of the server itself, or go on with polling",
    ListenerState.DEAF: "the server answers, but no notification arrives; connect to the server itself, not through a "
    "pooler in transaction mode, and see that pg_notification_queue_usage() is below 0.5",
}


@dataclass(slots=True)
class Signs:
    """What was heard on the connection there is now, and what was asked.

    Attributes:
        heartbeat_s: How often a sign of life comes at least from each who notifies.
        is_direct: Whether there is certainly no pooler between: then what the session sends itself proves the way.
        since_s: When the connection was made.
        asked_at_s: When the server answered last.
        heard_at_s: When each kind was heard of last.
        is_alive: Of each kind, whether somebody notifies; missing: not known yet.
        is_suspect: Something that must have come has not; it has half a heartbeat more.
    """

    heartbeat_s: float
    is_direct: bool
    since_s: float
    asked_at_s: float
    heard_at_s: dict[Kind, float] = field(default_factory=dict)
    is_alive: dict[Kind, bool] = field(default_factory=dict)
    is_suspect: bool = False

    def heard(self, kind: Kind, payload: str, now_s: float) -> None:
        """Take note of a sign of life, or of a notification that only somebody alive can have sent."""
        self.is_alive[kind] = payload != _GONE
        self.heard_at_s[kind] = now_s
        self.is_suspect = False

    def check_at_s(self, wanted: set[Kind]) -> float:
        """When to ask why nothing comes: when one of those that are wanted has been silent for too long."""
        if self.is_suspect:
            return self.asked_at_s + ANSWER * self.heartbeat_s
        # Of those who have left nothing is to be heard; but the connection may go too, without a word.
        heard_s = [
            self.heard_at_s.get(kind, 0.0) if self.is_alive.get(kind) else 0.0 for kind in wanted
        ]
        return max(self.asked_at_s, min(heard_s)) + SILENCE * self.heartbeat_s

    def answered(
        self, wanted: set[Kind], notifier_age_s: float | None, now_s: float, *, is_own_heard: bool
    ) -> bool:
        """Take note of what the server answered, and whether the session's own notification came with it.

        Returns:
            False when the connection is deaf.
        """
        self.asked_at_s = now_s
        is_notifier_at_work = (
            notifier_age_s is not None and notifier_age_s <= SILENCE * self.heartbeat_s
        )
        is_deaf = not is_own_heard
        for kind in wanted:
            heard_at_s = max(self.since_s, self.heard_at_s.get(kind, 0.0))
            is_silent = now_s - heard_at_s >= SILENCE * self.heartbeat_s
            if kind is Kind.LOG:
                if is_silent:  # who ticks leaves no other trace
                    self.is_alive[kind] = False
            elif not is_notifier_at_work:
                if is_silent or kind not in self.is_alive:
                    self.is_alive[kind] = False
            elif self.is_direct and is_own_heard:
                self.is_alive[kind] = True
            elif is_silent:
                is_deaf = True
        was_suspect, self.is_suspect = self.is_suspect, is_deaf
        return not (is_deaf and was_suspect)

    def state(self, wanted: set[Kind]) -> ListenerState:
        """How the listener fares, as long as its connection is good."""
        if Kind.QUEUE in wanted and self.is_alive.get(Kind.QUEUE) is False:
            return ListenerState.NO_NOTIFIER
        if Kind.LOG in wanted and self.is_alive.get(Kind.LOG) is False:
            return ListenerState.NO_TICKER
        if all(self.is_alive.get(kind) for kind in wanted):
            return ListenerState.LISTENING
        return ListenerState.CONNECTING
