"""State of a listener from the heartbeats it received: decisions without I/O. Times are the monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

# In heartbeats: silence before the connection is probed, and the response timeout. Together a dead connection is
# detected within two heartbeats.
SILENCE = 1.5
ANSWER = 0.5
# Payload of a sender that stops.
_GONE = "gone"


class ListenerState(StrEnum):
    """State of a listener.

    Attributes:
        CONNECTING: Not connected, or not verified yet. Waiters poll.
        LISTENING: Notifications arrive. Waiters poll rarely.
        NO_NOTIFIER: Connected, but no notifier is running. Waiters for queues poll.
        NO_TICKER: Connected, but no ticker is running. Waiters for logs poll.
        POOLED: Connected through a pooler in transaction mode, through which no notification arrives. Waiters poll.
        DEAF: The server responds, but no notification arrives. Waiters poll, and the listener reconnects.
        CLOSED: Closed, or not started. Waiters poll.
    """

    CONNECTING = "connecting"
    LISTENING = "listening"
    NO_NOTIFIER = "no notifier"
    NO_TICKER = "no ticker"
    POOLED = "pooled"
    DEAF = "deaf"
    CLOSED = "closed"


class Kind(StrEnum):
    """Kind of what is waited for: messages, events, or results of the messages of a queue.

    The first two have a heartbeat each. Results are notified by the sessions that settle, so they have none.
    """

    QUEUE = "queue"
    LOG = "log"
    RESULTS = "results"


class Place(NamedTuple):
    """A work queue, event log or results of a queue, with waiters."""

    kind: Kind
    name: str


HEARTBEAT_CHANNELS = {"sluice.notifier": Kind.QUEUE, "sluice.ticker": Kind.LOG}

REASONS = {
    ListenerState.LISTENING: "notifications arrive",
    ListenerState.NO_NOTIFIER: "no notifier is running in this database; run `pgsluice maintain` or `pgsluice notify`",
    ListenerState.NO_TICKER: "no ticker is running in this database; run `pgsluice maintain`",
    ListenerState.POOLED: "connected through a pooler in transaction mode, which delivers no notifications; give the "
    "listener a direct connection, or rely on polling",
    ListenerState.DEAF: "the server responds, but no notification arrives; connect directly, not through a pooler in "
    "transaction mode, and check that pg_notification_queue_usage() is below 0.5",
}


@dataclass(slots=True)
class Heartbeats:
    """Heartbeats and responses of the current connection.

    Attributes:
        heartbeat_s: Maximum heartbeat interval of each notifying process.
        is_direct: True if there is certainly no pooler: then the session's own notification proves delivery.
        since_s: Time of the connection.
        probed_at_s: Time of the server's last response.
        received_at_s: Time of the last heartbeat, by kind.
        is_alive: By kind, True if its sender is running; missing: unknown.
        is_suspect: An expected notification is missing; it has half a heartbeat more.
    """

    heartbeat_s: float
    is_direct: bool
    since_s: float
    probed_at_s: float
    received_at_s: dict[Kind, float] = field(default_factory=dict)
    is_alive: dict[Kind, bool] = field(default_factory=dict)
    is_suspect: bool = False

    def record(self, kind: Kind, payload: str, now_s: float) -> None:
        """Record a heartbeat, or another notification that proves its sender alive."""
        self.is_alive[kind] = payload != _GONE
        self.received_at_s[kind] = now_s
        self.is_suspect = False

    def check_at_s(self, expected: set[Kind]) -> float:
        """Return the time to probe the connection: after too long a silence of one of the expected kinds."""
        if self.is_suspect:
            return self.probed_at_s + ANSWER * self.heartbeat_s
        # Stopped senders are silent; but the connection may fail silently too.
        received_s = [
            self.received_at_s.get(kind, 0.0) if self.is_alive.get(kind) else 0.0
            for kind in expected
        ]
        return max(self.probed_at_s, min(received_s)) + SILENCE * self.heartbeat_s

    def record_response(
        self,
        expected: set[Kind],
        notifier_age_s: float | None,
        now_s: float,
        *,
        is_own_received: bool,
    ) -> bool:
        """Record the server's response to a probe, and whether the session's own notification arrived with it.

        Returns:
            False if the connection is deaf.
        """
        self.probed_at_s = now_s
        is_notifier_at_work = (
            notifier_age_s is not None and notifier_age_s <= SILENCE * self.heartbeat_s
        )
        is_deaf = not is_own_received
        for kind in expected | {Kind.RESULTS}:
            received_at_s = max(self.since_s, self.received_at_s.get(kind, 0.0))
            is_silent = now_s - received_at_s >= SILENCE * self.heartbeat_s
            if kind is Kind.RESULTS:
                self.is_alive[kind] = is_own_received
            elif kind is Kind.LOG:
                if is_silent:  # a ticker leaves no other trace
                    self.is_alive[kind] = False
            elif not is_notifier_at_work:
                if is_silent:  # one that starts with this process, or in it, has time until then
                    self.is_alive[kind] = False
            elif self.is_direct and is_own_received:
                self.is_alive[kind] = True
            elif is_silent:
                is_deaf = True
        was_suspect, self.is_suspect = self.is_suspect, is_deaf
        return not (is_deaf and was_suspect)

    def state(self, expected: set[Kind]) -> ListenerState:
        """Return the state of the listener, given a working connection."""
        if Kind.QUEUE in expected and self.is_alive.get(Kind.QUEUE) is False:
            return ListenerState.NO_NOTIFIER
        if Kind.LOG in expected and self.is_alive.get(Kind.LOG) is False:
            return ListenerState.NO_TICKER
        if all(self.is_alive.get(kind) for kind in expected):
            return ListenerState.LISTENING
        return ListenerState.CONNECTING
