"""Records of bounded searches in work queues and their archives."""

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
        searched_msg_id: Where the search ended: pass it as `after_msg_id` to continue; None at the end of the queue or
            archive.
        searched_vt: Likewise `after_vt`.
        left_out: Ids of the messages whose payloads were left out because of their size.
    """

    messages: Sequence[StoredMessage]
    searched_msg_id: int | None
    searched_vt: datetime | None
    left_out: frozenset[int] = frozenset()
