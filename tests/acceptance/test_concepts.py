"""Pages about concepts: their states, functions and numbers are those of the database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from pgsluice.errors import LeaseLostError
from pgsluice.testing import drain
from pgsluice.worker import App, SyncContext
from support import rows, value, wait_until
from support.browsing import chromium
from support.explaining import explain
from support.pages import blocks_of, pages, run_blocks

PAGES = {page.stem: page for page in pages("concepts") if page.stem.startswith(("life", "ex", "w"))}
POLICY = '{"max_attempts": 1}'
Call = Callable[[psycopg.Connection, str], object]


def statement(query: str) -> Call:
    """Return a call that executes a statement about message 1 of a queue."""
    return lambda connection, queue: connection.execute(query, {"queue": queue})


SEND = statement("select pgmq.send(%(queue)s, '{}')")
CLAIM = statement("select pgmq.read(%(queue)s, 30, 1)")
FAIL = """
    select sluice.fail(
        %(queue)s, '[{"msg_id": 1, "read_ct": 1, "delay": 0.2}]', null, nullif('POLICY', '')::jsonb
    )
"""
RELEASE = "select sluice.release(%(queue)s, array[1::bigint], array[1], 0.2, is_attempt => false)"
# The calls that bring message 1 of a new queue into a state.
INTO: dict[str, list[Call]] = {
    "": [],
    "ready": [SEND],
    "delayed": [statement("select pgmq.send(%(queue)s, '{}', 1)")],
    "in flight": [SEND, CLAIM],
    "retrying": [SEND, CLAIM, statement(FAIL.replace("POLICY", ""))],
    "released": [SEND, CLAIM, statement(RELEASE)],
    "archived": [SEND, statement("select pgmq.archive(%(queue)s, 1)")],
    "dead": [SEND, CLAIM, statement("select sluice.reject(%(queue)s, 1, 1, 'wrong')")],
    "gone": [SEND, statement("select pgmq.delete(%(queue)s, 1)")],
}
# What the page says of a transition, and the call that makes it; None: time passes.
BY: dict[str, Call | None] = {
    "`pgmq.send`": SEND,
    "`pgmq.send` with a delay": INTO["delayed"][0],
    "time": None,
    "time: `vt` expires": None,
    "`pgmq.read`": CLAIM,
    "`sluice.claim_messages`": statement("select sluice.claim_messages(%(queue)s, 30, 1, 'w')"),
    "`pgmq.pop`": statement("select pgmq.pop(%(queue)s)"),
    "`sluice.extend`": statement("select sluice.extend(%(queue)s, 1, 1, 60)"),
    "`sluice.archive`": statement("select sluice.archive(%(queue)s, 1, 1)"),
    "`sluice.delete`": statement("select sluice.delete(%(queue)s, 1, 1)"),
    "`sluice.fail`": INTO["retrying"][-1],
    "`sluice.fail` of the last attempt": statement(FAIL.replace("POLICY", POLICY)),
    "`sluice.reject`": INTO["dead"][-1],
    "`sluice.release` with a delay": statement("select sluice.release(%(queue)s, 1, 1, 1)"),
    "`sluice.release` without an attempt, with a delay": statement(RELEASE),
    "`pgmq.set_vt` of 0 seconds": statement("select pgmq.set_vt(%(queue)s, 1, 0)"),
    "retention, by `sluice.maintain`": lambda connection, queue: _expire(connection, queue),
    "`sluice.replay`, which sends a copy": statement("select sluice.replay(%(queue)s, '{1}')"),
    "`sluice.redrive`, which sends it as a new message": statement(
        "select sluice.redrive(%(queue)s)"
    ),
    "`sluice.purge_dead_letters`": statement(
        "select sluice.purge_dead_letters(%(queue)s, older_than => '0')"
    ),
}


def _expire(connection: psycopg.Connection, queue: str) -> None:
    connection.execute(f"update pgmq.a_{queue} set archived_at = now() - interval '8 days'")
    connection.execute("select * from sluice.maintain()")


def table(page: str, heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading, as the texts of their cells."""
    text = PAGES[page].read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    lines = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0].splitlines()
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]


def message_state(connection: psycopg.Connection, queue: str) -> str:
    return explain(connection, "explain_message", queue, 1)[0].detail["state"]


def new_queue(connection: psycopg.Connection, queue: str, state: str) -> None:
    """Create a queue whose message 1 is in a state."""
    connection.execute("select sluice.create_queue(%s)", [queue])
    for call in INTO[state]:
        call(connection, queue)


@pytest.mark.slow
def test_each_transition_of_a_message_leads_to_the_state_that_the_page_names(database_18):
    transitions = table("life-of-a-message", "Transitions")
    assert {by for _, by, _ in transitions} == {*BY}
    with database_18.connect() as connection:
        for number, (before, by, after) in enumerate(transitions):
            queue = f"q{number}"
            new_queue(connection, queue, before.strip("`"))
            if call := BY[by]:
                call(connection, queue)
            elif before == "`in flight`":
                connection.execute("select pgmq.set_vt(%s, 1, 1)", [queue])
            wait_until(
                lambda q=queue, s=after: message_state(connection, q) == s.strip("`"),
                f"{before} by {by} to be {after}",
                5,
            )


def test_places_and_figures_of_each_state_are_those_of_the_page(database_18):
    states = table("life-of-a-message", "States")
    assert {row[0].strip("`") for row in states} == {*INTO} - {""}
    with database_18.connect() as connection:
        for number, (state, _, place, figure, result) in enumerate(states):
            queue = f"q{number}"
            new_queue(connection, queue, state.strip("`"))
            places = [
                name
                for name in ("queue", "archive", "dead letters")
                if rows(connection, "select from sluice.browse(%s, %s)", queue, name)
            ]
            figures = [
                name
                for name in ("ready", "in_flight", "retrying", "delayed", "dead")
                if value(
                    connection,
                    f"select {name} from sluice.list_queue_states() where queue_name = %s",
                    queue,
                )
            ]
            found = value(connection, "select state from sluice.get_result(%s, 1)", queue)
            assert [places, figures, [found]] == [
                [cell.strip("`")] if cell else [] for cell in (place, figure, result)
            ], state
            assert message_state(connection, queue) == state.strip("`")


INSERT = "select pgq.insert_event(%(log)s, 't', 'd')"
TICK = "select pgq.force_tick(%(log)s), pgq.ticker(%(log)s)"
OPEN = "select pgq.next_batch(%(log)s, 'audit')"
FINISH = f"select pgq.finish_batch(({OPEN}))"
RETRY = f"select pgq.event_retry(({OPEN}), 1, 60)"
ROTATE = "select * from sluice.rotate(%(log)s)"
READ = [INSERT, TICK, OPEN, FINISH]
# What the page says of a step, and the calls up to it.
STEPS = {
    "`pgq.insert_event`": READ[:1],
    "`pgq.ticker`": READ[:2],
    "`pgq.next_batch`": READ[:3],
    "`pgq.finish_batch`": READ,
    "`pgq.event_retry`, then `pgq.finish_batch`": [*READ[:3], RETRY, FINISH],
    # The consumer has to pass the tick of the segment that was the current one.
    "`sluice.rotate`, when no consumer needs the segment": [*READ, ROTATE, *READ, ROTATE],
}


def test_each_call_about_an_event_leads_to_the_states_that_the_page_names(database_18):
    steps = table("life-of-an-event", "Steps")
    assert [step[0] for step in steps] == [*STEPS]
    with database_18.connect() as connection:
        for number, (call, event, of_consumer) in enumerate(steps):
            log = f"log {number}"
            connection.execute("select pgq.create_queue(%s)", [log])
            connection.execute("select pgq.register_consumer(%s, 'audit')", [log])
            connection.execute("update pgq.queue set queue_rotation_period = '0'")
            for query in STEPS[call]:
                connection.execute(query, {"log": log})
            facts = explain(connection, "explain_event", log, 1)

            assert facts[0].detail["state"] == event.strip("`"), call
            assert not of_consumer or of_consumer.strip("`") in [f.cause for f in facts], call


@pytest.mark.slow
def test_handler_that_another_worker_overtakes_commits_nothing(database_18):
    """The case of an expired lease in the page on exactly-once effects."""
    app = App(database_18.url, name="overtaken")
    raised = []

    @app.handler("orders")
    def pay(_order: int, context: SyncContext) -> None:
        # The lease expires, and another worker is faster: in one transaction, or this one could claim it again.
        with database_18.connect() as other, other.transaction():
            other.execute("select pgmq.set_vt('orders', 1, 0)")
            other.execute("select pgmq.read('orders', 60, 1)")
        try:
            with context.transaction() as connection:
                connection.execute("insert into paid values (1)")
        except LeaseLostError as error:
            raised.append(error)
            raise

    with database_18.connect() as connection:
        connection.execute("create table paid (customer_order integer)")
        app.create_queues(connection)
        pay.send(1, connection=connection)
        drain(app, dsn=database_18.url)

        assert len(raised) == 1
        assert rows(connection, "select * from paid") == []
        assert message_state(connection, "orders") == "in flight"
    app.close()


RESULTS = Path(__file__).parents[2] / "bench" / "results"
# The rows of the table of measurements: file, system, questions of its columns.
MEASURED = (
    ("share_held", "pgsluice", "completed messages, {} minute"),
    ("share_held", "PGMQ", "completed messages, {} minute"),
    ("held_snapshot-async", "pgsluice", "10 at a time, {} 30 s"),
    ("held_snapshot-async", "PGMQ", "10 at a time, {} 30 s"),
    ("log_held-async", "pgsluice", "snapshot held, {} minute"),
    ("log_held-async", "PgQ", "snapshot held, {} minute"),
)


def test_measured_rates_are_those_of_the_results():
    shown = table("why-it-does-not-decay", "Measured")
    picture = (PAGES["why-it-does-not-decay"].parents[1] / "images").joinpath(
        "why-it-does-not-decay.svg"
    )
    for row, (name, system, question) in zip(shown, MEASURED, strict=True):
        results = json.loads((RESULTS / f"2026-11-26-{name}.json").read_text())["results"]
        medians = {result["question"]: result["median"][system] for result in results}
        first, last = (medians[question.format(when)] for when in ("first", "last"))

        assert row[1:] == [f"{first:,.0f}", f"{last:,.0f}", f"{last / first:.2f}"]
        if name == "share_held":
            assert {f">{first:,.0f}<", f">{last:,.0f}<"} <= {
                *re.findall(r">[\d,]+<", picture.read_text())
            }


OVERLAPS = """() => {
    const picture = document.querySelector("svg").getBoundingClientRect();
    const texts = [...document.querySelectorAll("svg text")].map(
        text => ({text: text.textContent, at: text.getBoundingClientRect()}));
    return texts.flatMap(({text, at}, index) => [
        ...(at.left < 0 || at.top < 0 || at.right > picture.right || at.bottom > picture.bottom
            ? [`${text} is cut off`] : []),
        ...texts.slice(index + 1).filter(({at: other}) =>
            at.left < other.right && other.left < at.right
            && at.top < other.bottom - 2 && other.top < at.bottom - 2,
        ).map(({text: other}) => `${text} overlaps ${other}`)]);
}"""


@pytest.mark.slow
def test_texts_of_the_pictures_do_not_overlap_and_fit_800_pixels():
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 800, "height": 600})
        found = {}
        for page in PAGES:
            picture = PAGES[page].parents[1] / "images" / f"{page}.svg"
            tab.goto(picture.as_uri())
            found[page] = tab.evaluate(OVERLAPS)

    assert found == {page: [] for page in PAGES}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_concept_page_print_their_output(page, database_18, tmp_path):
    run_blocks(blocks_of(PAGES[page]), tmp_path, {"PGSLUICE_DSN": database_18.url})


@pytest.mark.parametrize("page", PAGES)
def test_functions_named_by_a_concept_page_exist(page, database_18):
    text = PAGES[page].read_text(encoding="utf-8")
    picture = Path(PAGES[page]).parents[1] / "images" / f"{page}.svg"
    named = set(re.findall(r"\b((?:pgmq|pgq|sluice)\.[a-z_]+)", text + picture.read_text()))
    with database_18.connect() as connection:
        known = {
            name
            for (name,) in rows(
                connection,
                """
                select pronamespace::regnamespace || '.' || proname from pg_proc
                union all
                select relnamespace::regnamespace || '.' || relname from pg_class
                """,
            )
        }

    assert named <= known
