"""Records of bounded searches in work queues, their archives and their dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pgsluice.client.records import StoredMessage


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """Messages that a search found.

    Attributes:
        messages: The messages, in the order of the search.
        searched_msg_id: Where the search ended: pass it as `after_msg_id` to continue; None at the end.
        searched_vt: Likewise `after_vt`.
        left_out: Ids of the messages whose payloads were left out because of their size.
        searched: Number of messages looked at.
        unsearched: Number of messages whose payloads were not searched because of their size.
    """

    messages: Sequence[StoredMessage]
    searched_msg_id: int | None
    searched_vt: datetime | None
    left_out: frozenset[int] = frozenset()
    searched: int = 0
    unsearched: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetterPlace:
    """A queue with dead letters, or a share group or consumer of a log.

    Attributes:
        queue_name: The queue, in lower case, or the log.
        consumer_name: The share group or consumer; None: a queue.
    """

    queue_name: str
    consumer_name: str | None
