"""The actions of operators, newest first."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client import OperatorAction
from pgsluice.dashboard.pages.parameters import whole_or_none
from pgsluice.dashboard.payloads import Redaction, shown_json
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of

_PAGE = 50
_FILTER = 500  # characters


def audit(request: Request) -> Response:
    """Show a page of actions, of all queues and logs or of one."""
    queue = request.query_params.get("queue") or None
    before = whole_or_none(request, "before")
    dashboard = dashboard_of(request)
    found = dashboard.database.part(
        lambda s: s.operations.list_actions(queue, before_action_id=before, qty=_PAGE + 1),
        "actions",
        queue,
        before,
    )
    actions = found.value or []
    return page(
        request,
        "audit.html",
        section="audit",
        found=found,
        queue=queue or "",
        before=before,
        shown=[(each, _arguments(each, dashboard.redaction)) for each in actions[:_PAGE]],
        next_before=actions[_PAGE - 1].action_id if len(actions) > _PAGE else None,
    )


def _arguments(action: OperatorAction, redaction: Redaction) -> str:
    if not action.filter:
        return ""
    cut = shown_json(redaction.apply(action.queue_name or "", action.filter), _FILTER)
    return f"{cut.text}…" if cut.is_cut else cut.text
