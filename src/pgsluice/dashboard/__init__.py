"""The dashboard: an ASGI app that shows queues, logs, share groups, schedules, pipelines and workers, and acts on them.

Needs the packages of `pgsluice[dashboard]`.
"""

from __future__ import annotations

from pgsluice.extras import require_packages

require_packages("the dashboard needs", ["starlette", "jinja2"], "dashboard")

from pgsluice.dashboard.application import app  # noqa: E402

__all__ = ["app"]
