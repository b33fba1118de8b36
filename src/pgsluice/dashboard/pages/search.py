"""A search of all queues and of the dead letters of logs for a text: one bounded search each, within a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client import DeadLetter, FoundMessages, StoredMessage
from pgsluice.client.calls.arguments import is_bigint
from pgsluice.client.calls.searching import list_dead_letter_places
from pgsluice.client.search_records import DeadLetterPlace
from pgsluice.dashboard.database import Database, PagePart, PageSession
from pgsluice.dashboard.filters import PageQuery
from pgsluice.dashboard.pages.messages import LISTED_BYTES, excerpt
from pgsluice.dashboard.payloads import Redaction
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of
from pgsluice.errors import QueueNotFoundError

_BUDGET_S = 1.0
_LEAST_S = 0.1  # for the last search of a page
_SCAN = 5_000
_SEARCHED_BYTES = 100_000  # of a payload; the page of a queue searches larger ones
_EACH = 10  # messages listed of each place


@dataclass(frozen=True, slots=True)
class PlaceFound:
    """The result of a search in a queue, or among the dead letters of a dropped queue, share group or consumer.

    Attributes:
        place: Where it searched.
        is_queue: True for a queue with its archive and its dead letters.
        messages: Messages of a queue.
        letters: Dead letters of another place.
        searched: Number of messages searched; None: dead letters, which are not counted.
        unsearched: Number of payloads too large to search.
        ended_at: The id at which the search ended; None: the end.
        left_out: Ids of the messages whose payloads are too large to list.
        problem: Why it was not searched, or None.
    """

    place: DeadLetterPlace
    is_queue: bool
    messages: tuple[StoredMessage, ...] = ()
    letters: tuple[DeadLetter, ...] = ()
    searched: int | None = None
    unsearched: int = 0
    ended_at: int | None = None
    left_out: frozenset[int] = frozenset()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """The terms of a search.

    Attributes:
        text: The text; None: only the key and the id are compared, as the dashboard hides values.
        key: The key to compare then; None: keys are hidden as well.
        msg_id: The text as an id, or None.
    """

    text: str | None
    key: str | None
    msg_id: int | None

    @classmethod
    def of(cls, text: str, redaction: Redaction) -> SearchTerms:
        """Return what may be searched for without telling a hidden value."""
        is_id = text.isdecimal() and len(text) < 20 and is_bigint(int(text) + 1)
        msg_id = int(text) if is_id else None
        if redaction.refusal(text) is None:
            return cls(text, None, msg_id)
        return cls(None, None if redaction.hides_key else text, msg_id)


def search(request: Request) -> Response:
    """Show where a text was found, what was searched, and what was not."""
    dashboard = dashboard_of(request)
    given = PageQuery(request.query_params)
    text = (given.text("text") or "").strip()
    after = given.text("after_queue"), given.text("after_consumer")
    terms = SearchTerms.of(text, dashboard.redaction)
    places: list[tuple[DeadLetterPlace, bool]] = []
    letters: PagePart[list[DeadLetterPlace]] = PagePart()
    found: list[PlaceFound] = []
    if text and not given.problems:
        places, letters = _places(dashboard.database, terms, after)
        found = _found(dashboard.database, places, terms)
    rest = places[len(found) :]
    return page(
        request,
        "search.html",
        400 if given.problems else 200,
        section="search",
        text=text,
        problems=given.problems,
        refusal=text and dashboard.redaction.refusal(text),
        terms=terms,
        letters=letters,
        is_continued=after[0] is not None,
        rows=[row for each in found for row in _rows(each, dashboard.redaction)],
        found=[each for each in found if each.problem is None],
        unread=[each for each in found if each.problem is not None],
        rest=rest,
        last=found[-1].place if found and rest else None,
        scan=_SCAN,
        searched_bytes=_SEARCHED_BYTES,
        is_live=False,
    )


def _places(
    database: Database, terms: SearchTerms, after: tuple[str | None, str | None]
) -> tuple[list[tuple[DeadLetterPlace, bool]], PagePart[list[DeadLetterPlace]]]:
    """Return the places after another, queues first (True), and the reading of the other places."""
    queues = database.read(lambda s: s.queues.list_queues(), "listed queues")
    known = {each.queue_name.lower() for each in queues}
    others: PagePart[list[DeadLetterPlace]] = PagePart([])
    if terms.text is not None or terms.msg_id is not None:
        others = database.part(lambda s: s.run(list_dead_letter_places()), "dead letter places")
    places = [
        *((DeadLetterPlace(each.queue_name, None), True) for each in queues),
        *(
            (each, False)
            for each in others.value or ()
            if each.consumer_name or each.queue_name not in known
        ),
    ]
    if terms.text is None and terms.key is None and terms.msg_id is None:
        return [], others
    ordered = sorted(places, key=lambda each: _order(each[0]))
    if after[0] is None:
        return ordered, others
    start = _order(DeadLetterPlace(after[0], after[1]))
    return [each for each in ordered if _order(each[0]) > start], others


def _order(place: DeadLetterPlace) -> tuple[bool, str, str]:
    return place.consumer_name is not None, place.queue_name, place.consumer_name or ""


def _found(
    database: Database, places: list[tuple[DeadLetterPlace, bool]], terms: SearchTerms
) -> list[PlaceFound]:
    """Search the places in turn until the time is over."""
    found: list[PlaceFound] = []
    until_s = time.monotonic() + _BUDGET_S
    for place, is_queue in places:
        left_s = until_s - time.monotonic()
        if found and left_s <= 0:
            break
        searching = _in_queue if is_queue else _in_dead_letters
        part = database.attempt(_bounded(database, searching, place, terms, max(left_s, _LEAST_S)))
        if part.value is not None:
            found.append(part.value)
        elif part.problem is not None:
            problem = "not searched in time" if part.is_timeout else part.problem
            found.append(PlaceFound(place, is_queue, problem=problem))
    return found


def _bounded(
    database: Database,
    searching: Callable[[PageSession, DeadLetterPlace, SearchTerms], PlaceFound],
    place: DeadLetterPlace,
    terms: SearchTerms,
    timeout_s: float,
) -> Callable[[], PlaceFound]:
    def run() -> PlaceFound:
        try:
            with database.session(timeout_s=timeout_s) as session:
                return searching(session, place, terms)
        except QueueNotFoundError:
            return PlaceFound(place, is_queue=True, problem="it was dropped")

    return run


def _in_queue(session: PageSession, place: DeadLetterPlace, terms: SearchTerms) -> PlaceFound:
    def read(**criteria: Any) -> FoundMessages:
        return session.operations.search_messages(
            place.queue_name,
            "all",
            message_bytes_max=LISTED_BYTES,
            searched_bytes_max=_SEARCHED_BYTES,
            **criteria,
        )

    messages: list[StoredMessage] = []
    left_out: frozenset[int] = frozenset()
    if terms.msg_id is not None:
        by_id = read(after_msg_id=terms.msg_id + 1, qty=1, scan=1)
        messages = [each for each in by_id.messages if each.msg_id == terms.msg_id]
        left_out = by_id.left_out
    if terms.text is None and terms.key is None:
        return PlaceFound(place, True, tuple(messages), searched=0, left_out=left_out)
    found = read(matching=terms.text, key=terms.key, qty=_EACH, scan=_SCAN)
    messages += [each for each in found.messages if each.msg_id != terms.msg_id]
    return PlaceFound(
        place,
        True,
        tuple(messages),
        searched=found.searched,
        unsearched=found.unsearched,
        ended_at=found.searched_msg_id,
        left_out=left_out | found.left_out,
    )


def _in_dead_letters(
    session: PageSession, place: DeadLetterPlace, terms: SearchTerms
) -> PlaceFound:
    found = session.dead_letters(place.queue_name, place.consumer_name).search(
        qty=_EACH,
        scan=_SCAN,
        matching=terms.text,
        msg_ids=None if terms.text is not None or terms.msg_id is None else [terms.msg_id],
        with_contents=False,
    )
    return PlaceFound(
        place, False, letters=tuple(found.letters), ended_at=found.searched_dead_letter_id
    )


def _rows(found: PlaceFound, redaction: Redaction) -> list[dict[str, Any]]:
    """Return what the table shows of each message and dead letter."""
    name = found.place.queue_name
    rows: list[dict[str, Any]] = []
    for message in found.messages:
        key, text = excerpt(redaction, name, message)
        is_large = message.msg_id in found.left_out
        rows.append(
            {"found": found, "message": message, "key": key, "text": text, "is_large": is_large}
        )
    rows += ({"found": found, "letter": letter} for letter in found.letters)
    return rows
