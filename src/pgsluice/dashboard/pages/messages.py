"""The messages of a queue: by state, or those that a filter selects, in pages of a bounded search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client import FoundMessages, StoredMessage
from pgsluice.client.headers import KEY_HEADER
from pgsluice.dashboard.database import Database, PagePart
from pgsluice.dashboard.filters import PageQuery
from pgsluice.dashboard.pages.queue import registered
from pgsluice.dashboard.payloads import Redaction, shown_line
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of
from pgsluice.errors import PrivilegeError

STATES = ("all", "visible", "in flight", "retrying", "delayed", "archived", "dead")
_RELATIONS = {"all": "all", "archived": "archive", "dead": "dead letters"}
_ORDERS = ("newest", "oldest")
_BY_VT = ("in flight", "retrying", "delayed")
_PAGE = 50
_SCAN = 20_000
_EXCERPT = 160  # characters of a payload
LISTED_BYTES = 8_000  # a page of larger payloads would take long to read
_SEARCHED_BYTES = 1_000_000  # likewise to search


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Conditions of a search.

    Attributes:
        state: One of `STATES`.
        order: `newest` or `oldest` first.
        key: Only messages with this key.
        matching: Only messages with this msg_id, key, or text in their contents, or that contain it as JSON; None: all.
        since: Only messages sent at this time or later.
        until: Only messages sent before this time.
        after: Where the search before ended.
        after_vt: Likewise.
        scan: The most messages to look at.
    """

    state: str
    order: str
    key: str | None
    matching: str | None
    since: datetime | None
    until: datetime | None
    after: int | None
    after_vt: datetime | None
    scan: int

    @property
    def is_narrow(self) -> bool:
        """True if messages that are read may be skipped."""
        narrowed = (self.key, self.matching, self.since, self.until)
        return self.state == "visible" or any(each is not None for each in narrowed)


@dataclass(frozen=True, slots=True)
class Listed:
    """Messages in a list.

    Attributes:
        found: The messages, and where the search ended.
        has_contents: False if the role may not read payloads.
    """

    found: FoundMessages
    has_contents: bool


def messages(request: Request) -> Response:
    """Show messages of a queue."""
    dashboard = dashboard_of(request)
    given = PageQuery(request.query_params)
    name = registered(dashboard.database, given.text("queue") or "").queue_name
    msg_id = given.whole("msg_id", "The msg_id")
    criteria = _filter(given, dashboard.redaction)
    listed: PagePart[Listed] = PagePart()
    if not given.problems:
        if msg_id is not None:
            listed = _by_id(dashboard.database, name, msg_id)
        else:
            listed = _searched(dashboard.database, name, criteria)
    found = listed.value and listed.value.found
    rows = found.messages if found else []
    is_whole_page = len(rows) >= _PAGE
    return page(
        request,
        "messages.html",
        400 if given.problems else 200,
        section="queues",
        name=name,
        states=STATES,
        criteria=criteria,
        msg_id=request.query_params.get("msg_id", ""),
        given=request.query_params,
        problems=given.problems,
        listed=listed,
        found=found,
        rows=[(each, excerpt(dashboard.redaction, name, each)) for each in rows],
        left_out=found.left_out if found else (),
        by_vt=criteria.state in _BY_VT,
        searched_bytes=_SEARCHED_BYTES,
        is_partial=bool(found and found.searched_msg_id is not None and not is_whole_page),
    )


def _filter(given: PageQuery, redaction: Redaction) -> MessageFilter:
    key = given.text("key")
    if key is not None and redaction.hides_key:
        given.problems.append("This dashboard hides keys, so they are not searched.")
    matching = given.matching(redaction)
    state = given.one_of("state", STATES)
    # Of deferred messages, those that become visible first are asked for most.
    orders = _ORDERS[::-1] if state in _BY_VT else _ORDERS
    return MessageFilter(
        state=state,
        order=given.one_of("order", orders),
        key=key,
        matching=matching,
        since=given.moment("since", "The start"),
        until=given.moment("until", "The end"),
        after=given.whole("after", "The place to continue"),
        after_vt=given.moment("after_vt", "The place to continue"),
        scan=min(max(given.whole("scan", "The number of messages to look at") or _SCAN, 1), _SCAN),
    )


def _by_id(database: Database, name: str, msg_id: int) -> PagePart[Listed]:
    found = database.part(lambda s: s.queues.get_messages(name, [msg_id]), "message", name, msg_id)
    if found.value is None:
        return PagePart(problem=found.problem, is_timeout=found.is_timeout)
    return PagePart(Listed(FoundMessages(found.value, None, None), True))


def _searched(database: Database, name: str, criteria: MessageFilter) -> PagePart[Listed]:
    """Search; without payloads if the role may not read them."""

    def search(with_contents: bool) -> Listed:
        found = database.read(
            lambda session: session.operations.search_messages(
                name,
                _RELATIONS.get(criteria.state, "queue"),
                of_state=None if criteria.state in _RELATIONS else cast("Any", criteria.state),
                after_msg_id=criteria.after,
                after_vt=criteria.after_vt,
                newest_first=criteria.order == "newest",
                qty=_PAGE,
                scan=criteria.scan,
                key=criteria.key,
                since=criteria.since,
                until=criteria.until,
                with_contents=with_contents,
                message_bytes_max=LISTED_BYTES,
                matching=criteria.matching,
                searched_bytes_max=_SEARCHED_BYTES,
            ),
            *("messages", name, with_contents, criteria.state, criteria.order, criteria.key),
            *(
                criteria.matching,
                criteria.since,
                criteria.until,
                criteria.after,
                criteria.after_vt,
            ),
            criteria.scan,
        )
        return Listed(found, with_contents)

    return database.attempt(lambda: _with_or_without(search, criteria))


def _with_or_without(search: Callable[[bool], Listed], criteria: MessageFilter) -> Listed:
    try:
        return search(True)
    except PrivilegeError:
        if criteria.key is not None or criteria.matching is not None:
            raise
        return search(False)


def excerpt(redaction: Redaction, name: str, message: StoredMessage) -> tuple[str, str]:
    """Return the key and the beginning of the payload."""
    headers = redaction.apply(name, message.headers)
    key = headers.get(KEY_HEADER) if isinstance(headers, dict) else None
    text = shown_line(redaction.apply(name, message.message), _EXCERPT)
    return "" if key is None else str(key), text.text + ("…" if text.is_cut else "")
