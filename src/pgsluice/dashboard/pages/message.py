"""A message: where it is, what happened to it, its attempts, and its exact payload."""

from __future__ import annotations

import re

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pgsluice.commands import command
from pgsluice.dashboard.filters import PageQuery
from pgsluice.dashboard.pages.queue import registered
from pgsluice.dashboard.pages.workers import ask_for_reports
from pgsluice.dashboard.payloads import ERROR_SHOWN, SHOWN, Shown, json_text, shown_json
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import Dashboard, dashboard_of

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def message(request: Request) -> Response:
    """Show a message, wherever it is."""
    dashboard = dashboard_of(request)
    database = dashboard.database
    name, msg_id = _named(request)
    explained = database.part(
        lambda s: s.operations.explain_message(name, msg_id), "explain message", name, msg_id
    )
    stored = database.part(lambda s: s.queues.get_messages(name, [msg_id]), "message", name, msg_id)
    ask_for_reports(database)
    attempts = database.part(
        lambda s: s.operations.list_attempts(name, [msg_id]), "attempts", name, msg_id
    )
    result = database.part(lambda s: s.operations.get_result(name, msg_id), "result", name, msg_id)
    kept = result.value if result.value and result.value.expires_at else None
    message = explained.value[0].detail if explained.value else {}
    state = message.get("state", "")
    return page(
        request,
        "message.html",
        404 if state == "unknown" else 200,
        section="queues",
        name=name,
        msg_id=msg_id,
        state=state,
        explained=explained,
        dead_letter_id=message.get("dead_letter_id"),
        stored=stored,
        contents=[
            (
                each,
                _shown(dashboard, name, each.message),
                None if each.headers is None else _shown(dashboard, name, each.headers),
            )
            for each in stored.value or ()
        ],
        attempts=attempts,
        result=None if kept is None else _shown(dashboard, name, kept.result),
        is_cut=any(is_failure_cut(each.error, each.trace) for each in attempts.value or ()),
        get=command("queue browse", name, str(msg_id)),
    )


def is_failure_cut(error: str | None, trace: str | None) -> bool:
    """True if a page cuts the error or the traceback of a failure."""
    return len(error or "") > ERROR_SHOWN or len(trace or "") > SHOWN


def payload(request: Request) -> Response:
    """Return the whole payload of a message, or its headers, as a file."""
    dashboard = dashboard_of(request)
    name, msg_id = _named(request)
    state = request.query_params.get("state")
    part = "headers" if request.query_params.get("part") == "headers" else "message"
    found = dashboard.database.read(lambda session: session.queues.get_messages(name, [msg_id]))
    value = next((getattr(each, part) for each in found if state in (None, each.state)), ...)
    if value is ...:
        raise HTTPException(404, "Message not found")
    return download(
        json_text(dashboard.redaction.apply(name, value)), f"{name}-{msg_id}-{part}.json"
    )


def download(text: str, name: str) -> Response:
    """Return a JSON text as a file; a browser neither shows nor runs it."""
    body = text.encode("utf-8", "backslashreplace")
    return Response(body, media_type="application/json", headers=attachment(name))


def attachment(name: str) -> dict[str, str]:
    """Return the headers of an answer that a browser saves as a file."""
    safe = _UNSAFE.sub("_", name)[-100:].lstrip(".")
    return {"Content-Disposition": f'attachment; filename="{safe}"'}


def _named(request: Request) -> tuple[str, int]:
    """Return the queue and the msg_id that the address names."""
    given = PageQuery(request.query_params)
    name = registered(dashboard_of(request).database, given.text("queue") or "").queue_name
    msg_id = given.whole("msg_id", "The msg_id")
    if msg_id is None:
        raise HTTPException(404, "Message not found: msg_id is a whole number")
    return name, msg_id


def _shown(dashboard: Dashboard, name: str, value: object) -> Shown:
    return shown_json(dashboard.redaction.apply(name, value))
