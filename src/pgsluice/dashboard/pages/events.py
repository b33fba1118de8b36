"""The events of a log, by id and time, and one event."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from pgsluice.client import BrowsedEvent, EventPosition
from pgsluice.dashboard.database import PageSession
from pgsluice.dashboard.pages.parameters import moment_or_none, required, whole_or_none
from pgsluice.dashboard.payloads import Redaction, Shown, formatted, shown
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of

_PAGE = 50
_READ = 1_000  # characters of each text of a listed event
_LISTED = 160  # characters shown
EVENT_TEXTS = ("ev_data", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")


@dataclass(frozen=True, slots=True)
class EventsPosition:
    """The place of a page of events in a log, as the query names it.

    Attributes:
        ev_id: Begin with this event.
        at: Begin with the transactions after the last tick before this time.
        position: The event before the page, exclusive; None: the end of the log.
        is_forward: True if the events are those after the position, oldest first.
    """

    ev_id: int | None
    at: datetime | None
    position: EventPosition | None
    is_forward: bool

    @property
    def is_newest(self) -> bool:
        """True for the newest events, which all viewers share."""
        return self.ev_id is None and self.at is None and self.position is None


@dataclass(frozen=True, slots=True)
class Page:
    """A page of events, newest first.

    Attributes:
        events: The events.
        newer: Position from which newer events are read forward, or None.
        older: Position from which older events are read backward, or None.
        is_missing: True if the log does not have the event that the query names.
    """

    events: list[BrowsedEvent]
    newer: EventPosition | None
    older: EventPosition | None
    is_missing: bool = False


def events(request: Request) -> Response:
    """Show a page of the events of a log."""
    name = required(request, "log")
    dashboard = dashboard_of(request)
    place = _place(request)
    key = ("events", name) if place.is_newest else ()
    found = dashboard.database.part(lambda s: _read(s, name, place), *key)
    return page(
        request,
        "events.html",
        section="logs",
        name=name,
        place=place,
        found=found,
        at=request.query_params.get("at", ""),
        listed=lambda text: _listed(dashboard.redaction, name, text),
        is_live=place.is_newest,
    )


def _place(request: Request) -> EventsPosition:
    txid, ev_id = whole_or_none(request, "txid"), whole_or_none(request, "after")
    position = EventPosition(txid, ev_id or 0) if txid is not None else None
    is_forward = request.query_params.get("direction") == "newer"
    return EventsPosition(
        whole_or_none(request, "ev_id"), moment_or_none(request, "at"), position, is_forward
    )


def _read(session: PageSession, name: str, place: EventsPosition) -> Page:
    position, is_forward = place.position, place.is_forward
    if position is None and place.ev_id is not None:
        found = session.logs.event_position(name, place.ev_id)
        if found is None:
            return Page([], None, None, is_missing=True)
        position, is_forward = EventPosition(found.ev_txid, found.ev_id - 1), True
    elif position is None and place.at is not None:
        position, is_forward = session.logs.event_position(name, moment=place.at), True
    txid, ev_id = position or (None, None)
    read = session.logs.browse_events(
        name,
        from_ev_txid=txid,
        from_ev_id=ev_id,
        backward=not is_forward,
        qty=_PAGE + 1,
        length_max=_READ + 1,
    )
    has_more, read = len(read) > _PAGE, read[:_PAGE]
    newest_first = read[::-1] if is_forward else read
    if not newest_first:
        return Page([], None, position if is_forward else None)
    newest, oldest = (_position(newest_first[number]) for number in (0, -1))
    return Page(
        newest_first,
        newest if (has_more if is_forward else position is not None) else None,
        oldest if (has_more or is_forward) else None,
    )


def _position(event: BrowsedEvent) -> EventPosition:
    return EventPosition(event.ev_txid, event.ev_id)


def _listed(redaction: Redaction, name: str, text: str | None) -> Shown:
    """Return what a table shows of a text that is cut after `_READ` characters."""
    if text is None:
        return Shown("", 0, is_cut=False)
    is_cut = len(text) > _READ
    return shown(redaction.text(name, text[:_READ], is_cut=is_cut), _LISTED)


def event(request: Request) -> Response:
    """Show an event, or send one of its texts as a file."""
    name = required(request, "log")
    ev_id = whole_or_none(request, "ev_id")
    if ev_id is None:
        raise HTTPException(400, "the address of this page needs ev_id")
    dashboard = dashboard_of(request)

    def read(session: PageSession) -> BrowsedEvent | None:
        position = session.logs.event_position(name, ev_id)
        if position is None:
            return None
        found = session.logs.browse_events(
            name, from_ev_txid=position.ev_txid, from_ev_id=position.ev_id - 1, qty=1
        )
        return found[0] if found and found[0].ev_id == ev_id else None

    # Not shared: its texts can be large.
    found = dashboard.database.part(read)
    if "download" in request.query_params:
        return _download(request, name, ev_id, found.value, dashboard.redaction)
    explained = dashboard.database.part(
        lambda s: s.logs.explain_event(name, ev_id), "explain event", name, ev_id
    )
    is_stored = request.query_params.get("as") == "stored"
    return page(
        request,
        "event.html",
        section="logs",
        name=name,
        ev_id=ev_id,
        found=found,
        explained=explained,
        is_stored=is_stored,
        texts=_texts(dashboard.redaction, name, found.value, is_stored=is_stored),
    )


def _texts(
    redaction: Redaction, name: str, event: BrowsedEvent | None, *, is_stored: bool
) -> list[tuple[str, Shown]]:
    """Return the texts of an event by field, without nulls."""
    if event is None:
        return []
    texts = [(field, getattr(event, field)) for field in EVENT_TEXTS]
    return [
        (field, shown(text) if is_stored else formatted(text))
        for field, text in ((f, redaction.text(name, t)) for f, t in texts if t is not None)
    ]


def _download(
    request: Request, name: str, ev_id: int, event: BrowsedEvent | None, redaction: Redaction
) -> Response:
    field = request.query_params["download"]
    text = getattr(event, field) if event is not None and field in EVENT_TEXTS else None
    if text is None:
        raise HTTPException(404, "the event does not have this text, or it is hidden")
    file = quote(f"{name}-{ev_id}-{field}.txt", safe="")
    sent = redaction.text(name, text).encode("utf-8", "backslashreplace")
    return PlainTextResponse(
        sent, headers={"Content-Disposition": f"attachment; filename*=UTF-8''{file}"}
    )
