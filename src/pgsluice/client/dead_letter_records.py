"""Records and filters of dead letters, with the fields of the SQL functions' results, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict


class DeadLetterFilter(TypedDict, total=False):
    """Conditions on dead letters; all must hold, and None is none.

    Attributes:
        msg_ids: Ids of the messages, or `ev_id` of the events.
        dead_letter_ids: Ids of the dead letters.
        conditional: JSON that the message contains. None of the events matches.
        conditional_headers: JSON that the headers contain. None of the events matches.
        ev_type: Type of the event.
        reason: Reason in a word or two, as in `DeadLetter`.
        error_type: Type of the last error; empty: none.
        error: The last error, or its pattern as in `DeadLetterGroup`; empty: none.
        matching: The `msg_id`, or the key of a message or of a parked event; or a text that occurs in the payload or
            the headers, or in the type or a text of the event, in upper or lower case. A JSON object or array is
            contained in them.
        since: Dead-lettered at this time or later, with a time zone.
        until: Dead-lettered before this time, with a time zone.
    """

    msg_ids: Sequence[int] | None
    dead_letter_ids: Sequence[int] | None
    conditional: dict[str, Any] | None
    conditional_headers: dict[str, Any] | None
    ev_type: str | None
    reason: str | None
    error_type: str | None
    error: str | None
    matching: str | None
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead-lettered message of a queue, or event of a share group or consumer.

    Attributes:
        dead_letter_id: Id among all dead letters, ascending in the order of dead-lettering.
        queue_name: The queue, spelled as in the call that dead-lettered the message, or the log.
        consumer_name: The share group or consumer that the event failed for; None: a message of a queue.
        msg_id: The `msg_id` of the message, or the `ev_id` of the event.
        read_ct: Number of deliveries.
        enqueued_at: Time of sending, or the `ev_time` of the event.
        last_read_at: Time of the last read; None for events.
        message: As in `Message`, as are `headers`; None for events.
        reason: Reason in a word or two.
        error: The last error, or None.
        dead_at: Time of dead-lettering.
        attempts: Number of attempts; None, like the fields up to `worker`, if it was not recorded.
        first_failed_at: Time of the first failure.
        error_type: Type of the last error: the name of an exception, or a word such as `timeout`.
        trace: Traceback of the last error.
        worker: Worker of the last attempt.
        redriven: Number of earlier redrives to the share group.
        claim_id: The last claim of the event in its share group.
        ev_txid: As in `Event`, as are the fields not listed here; None for messages.
        key: The key of a parked event, which blocks all events of the key.
    """

    dead_letter_id: int
    queue_name: str
    consumer_name: str | None
    msg_id: int
    read_ct: int
    enqueued_at: datetime
    last_read_at: datetime | None
    message: Any
    headers: Any
    reason: str
    error: str | None
    dead_at: datetime
    attempts: int | None = None
    first_failed_at: datetime | None = None
    error_type: str | None = None
    trace: str | None = None
    worker: str | None = None
    redriven: int = 0
    claim_id: int | None = None
    ev_txid: int | None = None
    ev_type: str | None = None
    ev_data: str | None = None
    ev_extra1: str | None = None
    ev_extra2: str | None = None
    ev_extra3: str | None = None
    ev_extra4: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class FailedEvent:
    """An event to dead-letter.

    Attributes:
        ev_id: Id of the event.
        reason: Reason in a word or two.
        error_type: Type of the error: the name of an exception, or a word such as `timeout`.
        error: The error's message.
        trace: The error's traceback.
    """

    ev_id: int
    reason: str = "rejected"
    error_type: str | None = None
    error: str | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Redriven:
    """A redriven dead letter and its new message, or event of its log.

    Attributes:
        msg_id: The `msg_id` of the new message, or the `ev_id` of the new event.
    """

    dead_letter_id: int
    msg_id: int


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
    """Dead letters of a queue, or of a share group or consumer, with the same reason and error.

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
