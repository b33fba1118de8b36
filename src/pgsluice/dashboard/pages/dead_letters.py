"""Dead letters of a queue, share group or consumer: grouped by error, listed, one with its trace, and exported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pgsluice.client import DeadLetter, DeadLetterGroup, FoundDeadLetters
from pgsluice.commands import command
from pgsluice.dashboard.database import Database, PagePart, PageSession
from pgsluice.dashboard.filters import PageQuery
from pgsluice.dashboard.pages.events import EVENT_TEXTS
from pgsluice.dashboard.pages.message import attachment, download, is_failure_cut
from pgsluice.dashboard.pages.queues import read_queues
from pgsluice.dashboard.payloads import Redaction, json_line, json_text, shown_json
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of

GROUPED = 3_000
_GROUPS = 100
_PAGE = 50
_SCAN = 5_000
_EXPORTED = 10_000
_EXPORT_PAGE = 25  # payloads may have megabytes


@dataclass(frozen=True, slots=True)
class DeadLetterCriteria:
    """Which dead letters; None: all.

    Attributes:
        queue: Their queue, or the log.
        consumer: Their share group or consumer.
        reason: Their reason.
        error_type: Type of their error; empty: none.
        error: Pattern of their error, as in `DeadLetterGroup`; empty: none.
        matching: Their msg_id, key, or text in their contents, or JSON that these contain.
        since: Dead-lettered at this time or later.
        until: Dead-lettered before this time.
    """

    queue: str
    consumer: str | None
    reason: str | None
    error_type: str | None
    error: str | None
    matching: str | None
    since: datetime | None
    until: datetime | None

    @property
    def query(self) -> dict[str, Any]:
        """The filter in the query of a page or an action."""
        return {
            "reason": self.reason,
            "error_type": self.error_type,
            "error": self.error,
            "matching": self.matching,
            "since": self.since and self.since.isoformat(),
            "until": self.until and self.until.isoformat(),
        }

    @property
    def is_empty(self) -> bool:
        """True if it selects all."""
        return all(value is None for value in self.query.values())

    def search(
        self, session: PageSession, before: int | None, qty: int, *, with_contents: bool
    ) -> FoundDeadLetters:
        """Return the next dead letters, newest first."""
        return session.dead_letters(self.queue, self.consumer).search(
            before_dead_letter_id=before,
            qty=qty,
            scan=_SCAN,
            since=self.since,
            until=self.until,
            reason=self.reason,
            error_type=self.error_type,
            error=self.error,
            matching=self.matching,
            with_contents=with_contents,
        )


def dead_letters(request: Request) -> Response:
    """Show dead letters of a queue, share group or consumer, one of them, or the queues that have some."""
    given = PageQuery(request.query_params)
    name, consumer = given.text("queue"), given.text("consumer")
    if name is None:
        return _queues(request)
    dead_letter_id = given.whole("dead_letter_id", "The dead_letter_id")
    criteria = _filter(given, name, dashboard_of(request).redaction)
    before = given.whole("before", "The place to continue")
    if dead_letter_id is not None:
        return _letter(request, name, consumer, dead_letter_id)
    dashboard = dashboard_of(request)
    database = dashboard.database
    groups: PagePart[list[DeadLetterGroup]] = PagePart()
    if criteria.is_empty and before is None:
        groups = database.part(
            lambda s: s.dead_letters(name, consumer).group_by_error(qty=GROUPED),
            *("dead groups", name, consumer),
        )
    found: PagePart[FoundDeadLetters] = PagePart()
    if not given.problems:
        key = (name, consumer, *criteria.query.values(), before)
        found = database.part(
            lambda s: criteria.search(s, before, _PAGE, with_contents=False),
            "dead letters",
            *key,
        )
    letters = found.value.letters if found.value else []
    searched = found.value and found.value.searched_dead_letter_id
    return page(
        request,
        "dead_letters.html",
        400 if given.problems else 200,
        section="queues" if consumer is None else "logs",
        name=name,
        consumer=consumer,
        given=request.query_params,
        problems=given.problems,
        criteria=criteria,
        before=before,
        groups=groups,
        shown_groups=(groups.value or [])[:_GROUPS],
        grouped=sum(each.letters for each in groups.value or ()),
        grouped_max=GROUPED,
        found=found,
        letters=letters,
        searched=searched,
        is_partial=searched is not None and len(letters) < _PAGE,
        scan=_SCAN,
        exported=_EXPORTED,
        seen_until=_seen_until(groups.value or [], letters, before),
    )


def _filter(given: PageQuery, name: str, redaction: Redaction) -> DeadLetterCriteria:
    matching = given.matching(redaction)
    # A form sends empty fields, a link to a group has them where its dead letters have no error.
    is_group = given.exact("group") is not None
    read = given.exact if is_group else given.text
    return DeadLetterCriteria(
        queue=name,
        consumer=given.text("consumer"),
        reason=given.text("reason"),
        error_type=read("error_type"),
        error=read("error"),
        matching=matching,
        since=given.moment("since", "The start"),
        until=given.moment("until", "The end"),
    )


def _seen_until(groups: list[DeadLetterGroup], letters: Any, before: int | None) -> datetime | None:
    """Return a time after the newest dead letter on the page, so that an action spares later ones."""
    newest = [each.last_dead_at for each in groups] + [each.dead_at for each in letters]
    return max(newest) + timedelta(microseconds=1) if newest and before is None else None


def _queues(request: Request) -> Response:
    """Show the queues that have dead letters."""
    listed = dashboard_of(request).database.part(read_queues, "queues")
    dead = [each for each in listed.value or () if each.figures and each.figures.dead]
    return page(
        request,
        "dead_letter_queues.html",
        section="queues",
        listed=listed,
        rows=sorted(dead, key=lambda each: -((each.figures and each.figures.dead) or 0)),
    )


def _read_letter(
    database: Database, name: str, consumer: str | None, dead_letter_id: int
) -> PagePart[DeadLetter | None]:
    """Return a dead letter, or None."""

    def read(session: PageSession) -> DeadLetter | None:
        found = session.dead_letters(name, consumer).search(
            before_dead_letter_id=dead_letter_id + 1, qty=1, scan=1
        )
        return next((each for each in found.letters if each.dead_letter_id == dead_letter_id), None)

    return database.part(read, "dead letter", name, consumer, dead_letter_id)


def _letter(request: Request, name: str, consumer: str | None, dead_letter_id: int) -> Response:
    """Show a dead letter with its trace, or return its payload as a file."""
    dashboard = dashboard_of(request)
    found = _read_letter(dashboard.database, name, consumer, dead_letter_id)
    letter = found.value
    if letter is None and found.problem is None:
        raise HTTPException(404, "Dead letter not found: it was redriven or purged")

    if letter is not None:
        letter = _redacted(dashboard.redaction, letter)
    part = request.query_params.get("download")
    if letter is not None and part in ("message", "headers"):
        value = letter.headers if part == "headers" else _payload(letter)
        return download(json_text(value), f"{name}-dead-{dead_letter_id}-{part}.json")
    return page(
        request,
        "dead_letter.html",
        section="queues" if consumer is None else "logs",
        name=name,
        consumer=consumer,
        dead_letter_id=dead_letter_id,
        found=found,
        letter=letter,
        is_cut=letter is not None and is_failure_cut(letter.error, letter.trace),
        get=letter and _print_command(letter),
        payload=letter and shown_json(_payload(letter)),
        headers=shown_json(letter.headers) if letter and letter.headers is not None else None,
    )


def _redacted(redaction: Redaction, letter: DeadLetter) -> DeadLetter:
    """Return a dead letter as it is shown."""
    name = letter.queue_name
    if letter.consumer_name is None:
        return replace(
            letter,
            message=redaction.apply(name, letter.message),
            headers=redaction.apply(name, letter.headers),
        )
    texts = {field: getattr(letter, field) for field in EVENT_TEXTS}
    shown: dict[str, Any] = {
        field: text and redaction.text(name, text) for field, text in texts.items()
    }
    return replace(letter, **shown)


def _payload(letter: DeadLetter) -> Any:
    """Return the message, or the texts of an event that it has."""
    if letter.consumer_name is None:
        return letter.message
    texts = {field: getattr(letter, field) for field in ("ev_type", *EVENT_TEXTS)}
    return {field: text for field, text in texts.items() if text is not None}


def _print_command(letter: DeadLetter) -> str:
    if letter.consumer_name is None:
        return command("queue browse", letter.queue_name, str(letter.msg_id))
    return command(
        "dead-letters list",
        letter.queue_name,
        consumer=letter.consumer_name,
        after=str(letter.dead_letter_id - 1),
        qty="1",
    )


def export(request: Request) -> Response:
    """Return dead letters as JSON lines, newest first, page by page."""
    dashboard = dashboard_of(request)
    given = PageQuery(request.query_params)
    name = given.text("queue") or ""
    criteria = _filter(given, name, dashboard.redaction)
    if given.problems:
        raise HTTPException(400, given.problems[0])
    # Read before the answer starts, so that an error is an error page.
    first = _next_page(dashboard.database, criteria, None)
    lines = _lines(dashboard.database, dashboard.redaction, criteria, first)
    headers = attachment(f"{name}-dead-letters.jsonl")
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


def _lines(
    database: Database,
    redaction: Redaction,
    criteria: DeadLetterCriteria,
    first: FoundDeadLetters,
) -> Iterator[bytes]:
    found, sent = first, 0
    while True:
        for letter in found.letters[: _EXPORTED - sent]:
            values = asdict(_redacted(redaction, letter))
            for key, value in values.items():
                if isinstance(value, datetime):
                    values[key] = value.isoformat()
            yield f"{json_line(values)}\n".encode("utf-8", "backslashreplace")
        sent += len(found.letters)
        before = found.searched_dead_letter_id
        if before is None or sent >= _EXPORTED:
            return
        found = _next_page(database, criteria, before)


def _next_page(
    database: Database, criteria: DeadLetterCriteria, before: int | None
) -> FoundDeadLetters:
    return database.read(lambda s: criteria.search(s, before, _EXPORT_PAGE, with_contents=True))
