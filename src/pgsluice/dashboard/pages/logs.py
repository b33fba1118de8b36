"""The list of event logs, and one log: segments, ticks, consumers and share groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client import ConsumerState, LogState, NewestSample
from pgsluice.client.calls.samples import list_group_settings
from pgsluice.dashboard.database import PageSession
from pgsluice.dashboard.pages.parameters import required
from pgsluice.dashboard.reader_history import read_history
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import Dashboard, dashboard_of
from pgsluice.errors import LogNotFoundError

_PAGE = 50
_READERS = 200  # shown on the page of a log
_DRAWN = 4  # lines of a chart


@dataclass(frozen=True, slots=True)
class ListedLog:
    """A log with its figures.

    Attributes:
        state: Its figures.
        worst: The newest sample of the consumer or share group with the largest lag, or None.
    """

    state: LogState
    worst: NewestSample | None


def logs(request: Request) -> Response:
    """Show the logs by name, in pages, or those whose names contain a text."""
    search = request.query_params.get("search", "")
    after = request.query_params.get("after", "")
    database = dashboard_of(request).database

    def read(session: PageSession) -> list[LogState]:
        return session.logs.list_log_states(after_name=after, qty=_PAGE + 1, search=search)

    found = database.part(read, "logs", after, search)
    worst = _worst(newest_samples(dashboard_of(request)))
    states = found.value or []
    return page(
        request,
        "logs.html",
        section="logs",
        found=found,
        search=search,
        after=after,
        shown=[ListedLog(each, worst.get(each.log_name)) for each in states[:_PAGE]],
        next_after=states[_PAGE - 1].log_name if len(states) > _PAGE else None,
    )


def newest_samples(dashboard: Dashboard) -> list[NewestSample]:
    """Return the newest samples of all consumers and share groups, or of those that could be read."""
    database = dashboard.database
    consumers = database.part(lambda s: s.operations.list_newest_samples("consumer"), "consumers")
    groups = database.part(lambda s: s.operations.list_newest_samples("group"), "groups")
    return [*(consumers.value or ()), *(groups.value or ())]


def _worst(samples: Sequence[NewestSample]) -> dict[str, NewestSample]:
    worst: dict[str, NewestSample] = {}
    for each in samples:
        known = worst.get(each.name)
        if known is None or (each.lag_events or 0) > (known.lag_events or 0):
            worst[each.name] = each
    return worst


def log(request: Request) -> Response:
    """Show a log."""
    name = required(request, "name")
    dashboard = dashboard_of(request)
    database = dashboard.database
    info = database.read(lambda s: s.logs.get_queue_info(name), "log", name)
    if not info:
        raise LogNotFoundError(f'log "{name}" does not exist')
    groups = database.part(lambda s: s.run(list_group_settings(name)), "group settings", name)
    consumers = database.part(lambda s: s.logs.list_consumers(name), "log consumers", name)
    group_names = {each.group_name for each in groups.value or ()}
    plain = sorted(
        (each for each in consumers.value or () if each.consumer_name not in group_names),
        key=_lag,
        reverse=True,
    )
    sampled = {each.reader_name: each for each in newest_samples(dashboard) if each.name == name}
    settings = database.part(lambda s: s.logs.log_options(name), "log settings", name)
    history = read_history(
        request, "consumer", name, [each.consumer_name for each in plain[:_DRAWN] if each.last_tick]
    )
    return page(
        request,
        "log.html",
        section="logs",
        name=name,
        info=info[0],
        explained=database.part(lambda s: s.logs.explain_log(name), "explain log", name),
        segments=database.part(lambda s: s.logs.list_segments(name), "segments", name),
        policy=settings.value,
        consumers=consumers,
        consumer_count=len(plain),
        shown=plain[:_READERS],
        groups=groups,
        captures=database.part(lambda s: s.logs.list_captures(name), "captures", name),
        capture_problems=database.part(
            lambda s: s.logs.list_capture_problems(name), "capture problems", name
        ),
        sampled=sampled,
        history=history,
    )


def _lag(consumer: ConsumerState) -> tuple[bool, int]:
    return consumer.lost is not None, consumer.lag_events or 0
