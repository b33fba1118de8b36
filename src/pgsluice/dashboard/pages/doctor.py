"""The findings of `pgsluice doctor`, the worst first."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of

_STATUSES = (
    ("fail", "Failed"),
    ("warn", "Warnings"),
    ("unknown", "Unknown: the check could not see enough"),
    ("ok", "In order"),
)


def doctor(request: Request) -> Response:
    """Show all findings by status."""
    diagnosis = dashboard_of(request).diagnosis.latest()
    findings = diagnosis.findings if diagnosis else ()
    grouped = [
        (status, title, [each for each in findings if each.status == status])
        for status, title in _STATUSES
    ]
    return page(
        request,
        "doctor.html",
        section="doctor",
        diagnosis=diagnosis,
        grouped=[each for each in grouped if each[2]],
    )
