"""Records of bounded searches in work queues, their archives and dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pgsluice.client.records import DeadLetter, StoredMessage


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


@dataclass(frozen=True, slots=True)
class FoundDeadLetters:
    """Dead letters that a search found.

    Attributes:
        letters: The dead letters, newest first.
        searched_dead_letter_id: Where the search ended: pass it as `before_dead_letter_id` to continue; None at the
            end.
    """

    letters: Sequence[DeadLetter]
    searched_dead_letter_id: int | None


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters of a queue with the same reason and error.

    Attributes:
        reason: Reason in a word or two.
        error_type: Type of the last error; empty: none.
        error: First line of the last error, with `#` for numbers, UUIDs and quoted values; empty: none.
        letters: Their number.
        first_dead_at: Time at which the first of them was dead-lettered.
        last_dead_at: Time at which the last of them was dead-lettered.
        example_dead_letter_id: The newest of them.
        example_error: First line of its error, or None.
    """

    reason: str
    error_type: str
    error: str
    letters: int
    first_dead_at: datetime
    last_dead_at: datetime
    example_dead_letter_id: int
    example_error: str | None
