"""Look at the messages that wait for a handler, also those of an open transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, TypeVar, Unpack

from pgsluice.client.calls import Steps, archives, delayed, logs
from pgsluice.client.calls.arguments import require_options
from pgsluice.client.headers import KEY_HEADER
from pgsluice.client.log_records import BrowsedEvent, DelayedEvent
from pgsluice.client.sources import AsyncConnectable, Connectable
from pgsluice.errors import PayloadError
from pgsluice.worker.handlers.handler import QueueRoute
from pgsluice.worker.handlers.sendable import Handler

Payload = TypeVar("Payload")
_PAGE = 1000
_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message or event that waits for a handler.

    Attributes:
        message_id: `msg_id` of a message, `ev_id` of an event; None for a delayed event, which has no id yet.
        payload: As the handler would get it; the stored value if it does not match the handler's type.
        key: Ordering key, or None.
        headers: As `context.headers`.
        due_at: Time at which it becomes visible; None if it is.
        sent_at: Start time of the sending transaction.
        stored: The payload as stored: the JSON value of a message, the text of an event.
    """

    message_id: int | None
    payload: Any
    key: str | None
    headers: dict[str, Any]
    due_at: datetime | None
    sent_at: datetime
    stored: Any


class SentFilter(TypedDict, total=False):
    """The messages that `assert_sent` accepts; an absent option accepts all.

    Attributes:
        payload: As passed to `send`.
        key: `key` as passed to `send`; None: without one.
        headers: Headers that the message has, among others.
        is_delayed: True: not visible yet; False: visible.
        count: Expected number of messages; 0: none. Default: one or more.
    """

    payload: Any
    key: str | None
    headers: Mapping[str, Any]
    is_delayed: bool
    count: int


def sent(
    handler: Handler[Any, ..., Any], *, connection: Connectable | None = None
) -> list[SentMessage]:
    """Return the messages in a handler's queue, or the events of its types in its log, in the order of their ids.

    Delayed messages and those being handled are included, but not archived or dead-lettered ones. Nothing is read or
    changed.

    Args:
        handler: Made by `App.handler`.
        connection: As for `Handler.send`: also messages of its open transaction. None: those committed, by a connection
            of the app.

    Raises:
        QueueNotFoundError: The queue does not exist.
        LogNotFoundError: The log does not exist.
    """
    return handler.pools.runner(connection).run_steps(_browse(handler))


async def sent_async(
    handler: Handler[Any, ..., Any], *, connection: AsyncConnectable | None = None
) -> list[SentMessage]:
    """Like `sent`, in an event loop."""
    runner = await handler.pools.async_runner(connection)
    return await runner.run_steps(_browse(handler))


def assert_sent(
    handler: Handler[Payload, ..., Any],
    *,
    connection: Connectable | None = None,
    **expected: Unpack[SentFilter],
) -> list[SentMessage]:
    """Assert that messages wait for a handler, as `sent` returns them.

        assert_sent(ship, payload=Parcel(7), connection=connection)
        assert_sent(ship, count=0, connection=connection)

    Args:
        handler: Made by `App.handler`.
        connection: As for `sent`.
        **expected: See `SentFilter`.

    Returns:
        The messages that match.

    Raises:
        AssertionError: None matches, or not `count`; the message lists those that wait.
        PayloadError: The expected payload could not be sent to the handler.
        QueueNotFoundError: As for `sent`.
        LogNotFoundError: As for `sent`.
    """
    return _require(handler, sent(handler, connection=connection), expected)


async def assert_sent_async(
    handler: Handler[Payload, ..., Any],
    *,
    connection: AsyncConnectable | None = None,
    **expected: Unpack[SentFilter],
) -> list[SentMessage]:
    """Like `assert_sent`, in an event loop."""
    return _require(handler, await sent_async(handler, connection=connection), expected)


def _require(
    handler: Handler[Any, ..., Any], found: list[SentMessage], expected: SentFilter
) -> list[SentMessage]:
    require_options(expected, SentFilter.__annotations__, "assert_sent")
    matching = [message for message in found if _matches(handler, message, expected)]
    count = expected.get("count")
    if (len(matching) == count) if count is not None else matching:
        return matching
    conditions = [f"{name}={value!r}" for name, value in expected.items() if name != "count"]
    lines = [
        f"expected {_named(count)} for {handler!r}"
        f"{' with ' if conditions else ''}{', '.join(conditions)}; {len(matching)} of {len(found)} match:"
        if found
        else f"expected messages for {handler!r}; there are none",
        *(
            f"  {message.payload!r} key={message.key!r} headers={message.headers!r} due_at={message.due_at}"
            for message in found[:_SHOWN_MAX]
        ),
        *([f"  and {len(found) - _SHOWN_MAX} more"] if len(found) > _SHOWN_MAX else []),
    ]
    raise AssertionError("\n".join(lines))


def _named(count: int | None) -> str:
    if count is None:
        return "one or more messages"
    return "1 message" if count == 1 else f"{count} messages"


def _matches(handler: Handler[Any, ..., Any], message: SentMessage, expected: SentFilter) -> bool:
    headers = expected.get("headers", {})
    return (
        (
            "payload" not in expected
            or _is_equal(handler.encode(expected["payload"]), message.stored)
        )
        and expected.get("key", message.key) == message.key
        and all(_is_same(message.headers.get(name), value) for name, value in headers.items())
        and expected.get("is_delayed", message.due_at is not None) is (message.due_at is not None)
    )


def _is_equal(encoded: Any, stored: Any) -> bool:
    """Compare JSON texts by value, as their spaces and the order of their fields may differ."""
    if _is_same(encoded, stored):
        return True
    if not (isinstance(encoded, str) and isinstance(stored, str)):
        return False
    try:
        return _is_same(json.loads(encoded), json.loads(stored))
    except ValueError:
        return False


def _is_same(one: Any, other: Any) -> bool:
    """Compare JSON values: true is not 1, as in Python, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _is_same(value, other[name]) for name, value in one.items()
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def _browse(handler: Handler[Any, ..., Any]) -> Steps[list[SentMessage]]:
    if isinstance(handler.spec.route, QueueRoute):
        return _messages(handler, handler.spec.route.queue_name)
    return _events(handler, handler.spec.route.log_name, handler.spec.route.event_types)


def _messages(handler: Handler[Any, ..., Any], queue_name: str) -> Steps[list[SentMessage]]:
    found: list[SentMessage] = []
    last: int | None = None
    while True:
        page = yield archives.browse(queue_name, after_msg_id=last, qty=_PAGE)
        for message in page:
            headers = message.headers if isinstance(message.headers, dict) else {}
            is_due = message.state in {"visible", "in flight"}
            found.append(
                SentMessage(
                    message.msg_id,
                    _decoded(handler, message.message),
                    headers.get(KEY_HEADER),
                    headers,
                    None if is_due else message.vt,
                    message.enqueued_at,
                    message.message,
                )
            )
        if len(page) < _PAGE:
            return found
        last = page[-1].msg_id


def _events(
    handler: Handler[Any, ..., Any], log_name: str, event_types: tuple[str, ...]
) -> Steps[list[SentMessage]]:
    found: list[SentMessage] = []
    position: tuple[int, int] | tuple[None, None] = (None, None)
    is_last = False
    while not is_last:
        page: list[BrowsedEvent] = yield logs.browse_events(
            log_name, from_ev_txid=position[0], from_ev_id=position[1], qty=_PAGE
        )
        found += [
            _event(handler, event, event.ev_id, event.ev_time, None)
            for event in page
            if event.ev_retry is None and (not event_types or event.ev_type in event_types)
        ]
        is_last = len(page) < _PAGE
        if page:
            position = (page[-1].ev_txid, page[-1].ev_id)
    waiting: list[DelayedEvent] = []
    while True:
        last = waiting[-1] if waiting else None
        due: list[DelayedEvent] = yield delayed.list_delayed(
            log_name,
            qty=_PAGE,
            after_due_at=None if last is None else last.due_at,
            after_delayed_id=None if last is None else last.delayed_id,
        )
        waiting += due
        if len(due) < _PAGE:
            break
    found += [
        _event(handler, event, None, event.ev_time, event.due_at)
        for event in waiting
        if not event_types or event.ev_type in event_types
    ]
    return found


def _event(
    handler: Handler[Any, ..., Any],
    event: BrowsedEvent | DelayedEvent,
    ev_id: int | None,
    sent_at: datetime,
    due_at: datetime | None,
) -> SentMessage:
    names = ("ev_type", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
    fields = {name: getattr(event, name) for name in names}
    headers = {name: value for name, value in fields.items() if value is not None}
    payload = _decoded(handler, event.ev_data)
    return SentMessage(ev_id, payload, event.ev_extra1, headers, due_at, sent_at, event.ev_data)


def _decoded(handler: Handler[Any, ..., Any], stored: Any) -> Any:
    try:
        return handler.spec.decode(stored)
    except PayloadError:
        return stored
