"""The form of an act, which asks before it acts; and the page of a job that it began."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pgsluice.client import Inbox
from pgsluice.client.calls import acts
from pgsluice.client.calls.call import storable
from pgsluice.dashboard.acts.act import Act, Link, Question, Run, RunStep, Step
from pgsluice.dashboard.acts.given import FormValues
from pgsluice.dashboard.database import PageSession
from pgsluice.dashboard.guard import viewer_of
from pgsluice.dashboard.jobs import ActJob
from pgsluice.dashboard.rendering import links, page
from pgsluice.dashboard.settings import Dashboard, dashboard_of
from pgsluice.errors import ArgumentError, PayloadError

_LISTED = 100
_BODY_MAX = 4_000_000  # bytes
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,64}")
_ONCE = "sluice.once(text,text,interval)"
_SCOPE = "pgsluice dashboard"
_STATEMENT_S = 30.0
_FIRST_S = 0.5  # small jobs are done before their page is shown


async def act(request: Request) -> Response:
    """Ask, or act."""
    found = dashboard_of(request).acts.get(request.path_params["act"])
    if found is None:
        raise HTTPException(404, "There is no such action")
    if request.method == "POST":
        form = await _form(request)
        return await run_in_threadpool(_perform, request, found, form)
    return await run_in_threadpool(_show, request, found)


async def job(request: Request) -> Response:
    """Show a job, or all of them; or cancel one."""
    jobs = dashboard_of(request).jobs
    form = await _form(request) if request.method == "POST" else {}
    job_id = form.get("id") or request.query_params.get("id")
    if job_id is None:
        return await run_in_threadpool(page, request, "jobs.html", jobs=jobs.newest()[:_LISTED])
    found = jobs.find(job_id)
    if found is None:
        return await run_in_threadpool(
            page,
            request,
            "problem.html",
            404,
            title="This job is not known",
            text="The dashboard was restarted, or the job ended more than an hour ago. What it has done is in the "
            "audit; the rest was left as it was.",
            is_live=False,
        )
    if request.method == "POST":
        found.cancel()
        return RedirectResponse(links(request)("job", id=found.id), 303)
    return await run_in_threadpool(page, request, "job.html", job=found, is_live=found.is_open)


def _show(request: Request, found: Act) -> Response:
    if not dashboard_of(request).allows_actions:
        return page(
            request,
            "problem.html",
            403,
            title="This dashboard is read-only",
            text="Start it with --allow-actions, or pass allow_actions=True to pgsluice.dashboard.app.",
            is_live=False,
        )
    given = _values(request, found, _with_ids(request, found))
    return _refusal(request, found) or _form_page(request, found, given)


def _with_ids(request: Request, found: Act) -> Mapping[str, str]:
    """Return the query, in which each selected row has a value of its own: the ids become one value.

    Raises:
        ArgumentError: No row is selected: without ids an act may be one on all.
    """
    query = request.query_params
    if not found.ids or found.ids not in query:
        return query
    ids = ",".join(filter(None, query.getlist(found.ids)))
    if not ids:
        raise ArgumentError(f"no row is selected: {found.ids} is empty; go back and select rows")
    return {**query, found.ids: ids}


def _form_page(
    request: Request,
    found: Act,
    given: FormValues,
    *,
    filled: Mapping[str, str] | None = None,
    problem: str = "",
    status: int = 200,
) -> Response:
    """Return the form: with its first values, or as it was filled in and refused."""
    for name in found.arguments:
        given.text(name)
    question = found.ask(dashboard_of(request).database, given)
    values = {each.name: each.value for each in found.fields}
    values |= {name: value for name, value in (filled or given.values).items() if name in values}
    fields = {each.name for each in found.fields}
    hidden = {name: value for name, value in given.values.items() if name not in fields}
    return page(
        request,
        "act.html",
        status,
        act=found,
        question=question,
        values=values,
        hidden=hidden | dict(question.frozen) | {"token": secrets.token_urlsafe(16)},
        back=found.back(given),
        problem=problem,
        is_live=False,
    )


def _values(request: Request, found: Act, values: Mapping[str, str]) -> FormValues:
    """Return the values of an act.

    Raises:
        ArgumentError: How much they select could tell a value that the dashboard hides.
    """
    given = FormValues(values, found.names)
    matching = given.find("matching") if "matching" in found.names else None
    if matching and (refusal := dashboard_of(request).redaction.refusal(matching)):
        raise ArgumentError(refusal)
    return given


def _refusal(request: Request, found: Act) -> Response | None:
    """Return the page that says why the database would refuse the act; None: it would not."""
    database = dashboard_of(request).database
    rights = database.read(lambda s: s.run(acts.rights((*found.functions, _ONCE))))
    if rights.is_standby:
        return page(
            request,
            "problem.html",
            409,
            title="The server is a standby, which refuses actions",
            text="Connect the dashboard to the primary, or name all servers in the DSN and add "
            "target_session_attrs=read-write.",
            is_live=False,
        )
    if rights.missing:
        names = ", ".join(sorted(name.partition("(")[0] for name in rights.missing))
        return page(
            request,
            "problem.html",
            403,
            title="The role of this dashboard lacks a right",
            text=f"Role {rights.role_name} may not call {names}. Grant it sluice_admin, or start the dashboard as "
            "another role:",
            command=rights.hint,
            is_live=False,
        )
    return None


def _perform(request: Request, found: Act, form: Mapping[str, str]) -> Response:
    """Run an act once for each form, and return to its page.

    The token of the form is an idempotency key, recorded in the transaction of the act: a form that is sent twice acts
    once, also if the first answer was lost, or another process has answered it.
    """
    dashboard = dashboard_of(request)
    given = _values(request, found, form)
    for name in found.arguments:
        given.text(name)
    token = form.get("token", "")
    if not _TOKEN.fullmatch(token):
        raise ArgumentError("the form has no token; open it from its page and send it again")
    refusal = _refusal(request, found)
    if refusal is not None:
        return refusal
    viewer = viewer_of(request)
    begun = ActJob(token, found.title, "", found.back(given), viewer, done=found.done)
    try:
        if found.run is not None:
            _run(dashboard, found.run, given, begun)
        elif found.step is not None:
            _start(dashboard, found.step, found.ask(dashboard.database, given), given, begun)
    except (ArgumentError, PayloadError) as error:
        if not found.fields:
            raise
        return _form_page(request, found, given, filled=form, problem=str(error), status=400)
    if found.run is None:
        return RedirectResponse(links(request)("job", id=token), 303)
    dashboard.forget()
    return _return(request, begun.back, token)


def _return(request: Request, back: Link, token: str) -> Response:
    return RedirectResponse(links(request)(back.page, **back.query, done=token), 303)


def _run(dashboard: Dashboard, run: Run, given: FormValues, begun: ActJob) -> None:
    with dashboard.database.session(writes=True, timeout_s=_STATEMENT_S) as session:
        if not _is_first(session, begun):
            return
        begun.sentence = run(session, given)
    dashboard.jobs.keep(begun)


def _start(
    dashboard: Dashboard, run_step: RunStep, question: Question, given: FormValues, begun: ActJob
) -> None:
    begun = replace(begun, sentence=question.sentence, number=question.number)
    with dashboard.database.session(writes=True, timeout_s=_STATEMENT_S) as session:
        if not _is_first(session, begun):
            return

    def step(after_id: int | None) -> Step:
        with dashboard.database.session(writes=True, timeout_s=_STATEMENT_S) as session:
            _name(session, begun.viewer)
            return run_step(session, given, after_id)

    dashboard.jobs.start(begun, step, dashboard.forget)
    begun.join(_FIRST_S)


def _is_first(session: PageSession, begun: ActJob) -> bool:
    """Record the token of a form; False: it was sent before."""
    _name(session, begun.viewer)
    return Inbox(session.connection).once(_SCOPE, begun.id)


def _name(session: PageSession, viewer: str) -> None:
    session.run(
        acts.name_application(
            storable(f"pgsluice dashboard: {viewer}" if viewer else "pgsluice dashboard")
        )
    )


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        HTTPException: It is too large, or not a form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "This is not a form")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _BODY_MAX:
            raise HTTPException(413, f"The form is larger than {_BODY_MAX:,} bytes")
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError:
        raise HTTPException(400, "This is not a form") from None
    return dict(pairs)
