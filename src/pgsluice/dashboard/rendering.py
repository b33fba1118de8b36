"""Render pages: templates, links, times, sizes and numbers."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pgsluice.client import ExplainedFact
from pgsluice.client.sentences import sized
from pgsluice.dashboard import charts
from pgsluice.dashboard.guard import parent_of, prefix_of, viewer_of
from pgsluice.dashboard.jobs import ActJob
from pgsluice.dashboard.payloads import ERROR_SHOWN, SHOWN
from pgsluice.dashboard.settings import dashboard_of

_TABLE = re.compile(r"<thead>(?P<head>.*?)</thead>(?P<body>.*?)</table>", re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_CELL = re.compile(r"<(?P<name>t[rhd])\b(?P<rest>[^>]*)>")
_TAG = re.compile(r"<[^>]*>")
_SPAN = re.compile(r' colspan="(\d+)"')
_UNITS = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SECTIONS = {
    "state": "State",
    "history": "History",
    "reason": "Now",
    "next": "Next",
    "server": "Server and database",
}


def page(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """Return a page.

    Args:
        request: The request.
        template: File of `templates`.
        status: HTTP status.
        context: Variables of the template.
    """
    dashboard = dashboard_of(request)
    text = (
        _environment()
        .get_template(template)
        .render(
            request=request,
            dashboard=dashboard,
            viewer=viewer_of(request),
            now=datetime.now(UTC),
            url=links(request),
            done=_done(request),
            **context,
        )
    )
    # Lone surrogates, which JSON may escape, have no UTF-8: shown as their escapes.
    return HTMLResponse(labelled(text).encode("utf-8", "backslashreplace"), status)


def links(request: Request) -> Links:
    """Return the links to pages."""
    return Links(request)


def _done(request: Request) -> ActJob | str | None:
    """Return what the form has done that returned to this page; its token, if that is not known; None: no form did."""
    token = request.query_params.get("done")
    return token and (dashboard_of(request).jobs.find(token) or token)


class Links:
    """Links to pages, below the path at which the dashboard is mounted."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def __call__(self, name: str, /, **query: Any) -> str:
        """Return the path of a page with its query; arguments that are None are left out."""
        return self._path(name) + _query(query)

    def act(self, act_name: str, /, **query: Any) -> str:
        """Return the path of the form of an action."""
        return self._path("act", act=act_name) + _query(query)

    def here(self, **changed: Any) -> str:
        """Return this page with other values in its query; None removes one. What an act has done is not repeated."""
        return _query({**self._request.query_params, "done": None, **changed}) or "?"

    def shard(self, name: str, /) -> str:
        """Return the path of the overview of another shard."""
        return f"{parent_of(self._request, dashboard_of(self._request).shard)}/{name}/"

    def static(self, path: str) -> str:
        """Return the path of a file, which changes with its contents."""
        return f"{self._path('static', path=path)}?v={_hash_of(path)}"

    def _path(self, name: str, /, **parameters: Any) -> str:
        # Not request.url_for: in a mounted app it asks the router of the host, which has other names.
        path = self._request.app.url_path_for(name, **parameters)
        return f"{prefix_of(self._request)}{path}"


def _query(query: dict[str, Any]) -> str:
    given = {key: value for key, value in query.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


@cache
def _hash_of(path: str) -> str:
    file = resources.files("pgsluice.dashboard").joinpath("static", path)
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pgsluice.dashboard", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "when": when,
        "duration": duration,
        "size": size,
        "number": number,
        "counted": quantity,
        "cut": cut,
        "sections": sections,
    }
    environment.globals |= {"chart": charts.chart, "shown_max": SHOWN}
    return environment


def labelled(page: str) -> str:
    """Return a page whose cells have the heads of their columns as `data-label`: narrow windows show rows as cards.

    The head of a row is the title of its card. Templates escape each text, so that a tag of a table is none of a text.
    """
    return _TABLE.sub(_with_labels, page)


def _with_labels(table: re.Match[str]) -> str:
    heads = [_TAG.sub("", each).strip() for each in _HEAD.findall(table["head"])]
    column = 0

    def with_label(tag: re.Match[str]) -> str:
        nonlocal column
        if tag["name"] == "tr":
            column = 0
            return tag[0]
        span = _SPAN.search(tag["rest"])
        label = "" if span or tag["name"] == "th" or column >= len(heads) else heads[column]
        column += int(span[1]) if span else 1
        return f'<td{tag["rest"]} data-label="{label}">' if label else tag[0]

    return f"<thead>{table['head']}</thead>{_CELL.sub(with_label, table['body'])}</table>"


def when(moment: datetime | None, now: datetime) -> Markup:
    """Return a time as HTML: relative to `now`, with the absolute time in UTC."""
    if moment is None:
        return Markup('<span class="none">never</span>')
    utc = moment.astimezone(UTC)
    seconds = round((utc - now).total_seconds())
    # Clocks of client and server differ a little: what has just happened is not in the future.
    text = "just now"
    if seconds > 1:
        text = f"in {duration(seconds)}"
    elif seconds < 0:
        text = f"{duration(-seconds)} ago"
    absolute = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{} <small>{}</small></time>').format(
        utc.isoformat(), utc.isoformat(), text, absolute
    )


def duration(value: float | timedelta | None) -> str:
    """Return a duration with its largest unit and the next smaller one: `3 h 5 min`, `3 h`."""
    if value is None:
        return "\u2013"
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0:
        return f"\u2212{duration(-seconds)}"
    if seconds < 10:
        return f"{seconds:.3g} s" if seconds >= 0.001 else "0 s"
    parts: list[str] = []
    whole = round(seconds)
    for unit_s, name in _UNITS:
        is_second = bool(parts)
        count, whole = divmod(whole, unit_s)
        if count:
            parts.append(f"{count} {name}")
        if is_second:
            break
    return " ".join(parts)


def size(value: float | None) -> str:
    """Return a size in bytes as PostgreSQL shows it; a dash for none."""
    return "\u2013" if value is None else sized(value)


def number(value: float | None) -> str:
    """Return a number with thin spaces between thousands: `1 234 567`."""
    if value is None:
        return "\u2013"
    if isinstance(value, float):
        return f"{value:,.1f}".replace(",", "\u202f") if value < 100 else number(round(value))
    return f"{value:,}".replace(",", "\u202f")


def quantity(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 message`, `1 234 messages`."""
    return f"{number(count)} {noun if count == 1 else plural or noun + 's'}"


def whose(queue_name: str, consumer_name: str | None) -> str:
    """Return in words whose dead letters they are: `queue Q`, or `C of log L`."""
    return (
        f"queue {queue_name}" if consumer_name is None else f"{consumer_name} of log {queue_name}"
    )


def cut(text: str | None, limit: int = ERROR_SHOWN) -> str:
    """Return a text, perhaps cut after `limit` characters, with the number of all: `lorem… (5 000 characters)`.

    Clients other than workers may store errors of any length.
    """
    text = text or ""
    return f"{text[:limit]}… ({number(len(text))} characters)" if len(text) > limit else text


def sections(explained: Sequence[ExplainedFact]) -> list[tuple[str, list[ExplainedFact]]]:
    """Return the facts of an explanation by section, with the titles of the sections."""
    return [
        (_SECTIONS.get(section, section), list(members))
        for section, members in itertools.groupby(explained, key=lambda fact: fact.section)
    ]
