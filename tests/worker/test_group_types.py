"""Handlers of one share group in several processes and versions: each event reaches its handler."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from pgsluice.connection import resolve
from pgsluice.errors import ConfigurationError
from pgsluice.testing import drain
from pgsluice.worker import App
from pgsluice.worker.engine.claim.start_checks import run_checks
from pgsluice.worker.engine.flow.worker import Worker
from pgsluice.worker.handlers.choosing import choose
from support import rows, value

GROUP = "desk"


@pytest.fixture
def log_name(observer, queue_name):
    name = f"log_{queue_name}"
    observer.execute("select pgq.create_queue(%s)", [name])
    return name


@pytest.fixture
def declare(worker_url, log_name):
    """Return a function that makes an app with a handler `on_TYPE` per type, which appends to `app.seen`."""

    def make(*types: str | None, consumer: str | None = None) -> Any:
        app: Any = App(worker_url, name="shop")
        app.seen = []
        for event_type in types:
            add(app, event_type, consumer)
        return app

    def add(app: Any, event_type: str | None, consumer: str | None) -> None:
        def handle(payload: int) -> None:
            app.seen.append((event_type, payload))

        app.handler(
            log=log_name,
            group=None if consumer else GROUP,
            consumer=consumer,
            event_types=() if event_type is None else [event_type],
            name=f"on_{event_type}",
        )(handle)

    return make


@pytest.fixture
def group(observer, log_name):
    def create(**options: str) -> None:
        observer.execute(
            "select sluice.create_group(%s, %s, jsonb_object(%s::text[], %s::text[]))",
            [log_name, GROUP, list(options), list(options.values())],
        )

    return create


@pytest.fixture
def send(observer, log_name):
    def insert(*types: str) -> None:
        for number, event_type in enumerate(types):
            observer.execute(
                "select pgq.insert_event(%s, %s, %s)", [log_name, event_type, str(number)]
            )

    return insert


def state(observer, log_name) -> tuple[int, int, int]:
    """Return lag, leased events and dead letters."""
    (found,) = rows(
        observer,
        "select lag_events, leased, dead from sluice.list_groups(%s, %s)",
        log_name,
        GROUP,
    )
    return found


@pytest.mark.parametrize("first", ["paid", "shipped"])
def test_handlers_of_a_group_in_two_processes_handle_each_their_own_events(
    declare, group, send, observer, log_name, first
):
    second = {"paid": "shipped", "shipped": "paid"}[first]
    group()
    send(*["paid", "shipped"] * 5)
    app = declare("paid", "shipped")

    assert drain(app, handlers=[f"on_{first}"])[f"on_{first}"].done == 5
    assert state(observer, log_name) == (5, 0, 0)
    assert drain(app, handlers=[f"on_{second}"])[f"on_{second}"].done == 5
    assert state(observer, log_name) == (0, 0, 0)


def test_older_version_leaves_a_new_type_to_the_newer_one(declare, group, send):
    group()
    old, new = declare("paid"), declare("paid", "shipped")
    drain(new, handlers=["on_paid"])
    send("paid", "shipped")

    drain(old)
    assert old.seen == [("paid", 0)]
    drain(new)
    assert new.seen == [("shipped", 1)]


def test_handler_of_all_other_types_that_runs_elsewhere_gets_them(declare, group, send):
    group()
    app = declare("paid", None)
    send("paid", "new")

    drain(app, handlers=["on_paid"])
    drain(app, handlers=["on_None"])
    assert app.seen == [("paid", 0), (None, 1)]


@pytest.mark.parametrize(
    ("unhandled", "left"),
    [("accept", (0, 0, 0)), ("leave", (2, 0, 0)), ("dead-letter", (0, 0, 2))],
)
def test_events_of_a_type_without_a_handler_are_treated_as_the_group_chooses(
    declare, group, send, observer, worker_url, log_name, caplog, unhandled, left
):
    group(unhandled=unhandled)
    send("new", "paid", "new")
    app = declare("paid")

    with caplog.at_level(logging.WARNING):
        drain(app)

    assert app.seen == [("paid", 1)]
    assert state(observer, log_name) == left
    logged = [each for each in caplog.messages if "without handler" in each]
    assert len(logged) == (0 if unhandled == "leave" else 1)
    (new,) = rows(
        observer,
        "select waiting, accepted, dead_lettered from sluice.list_types(%s, %s) where ev_type = 'new'",
        log_name,
        GROUP,
    )
    assert new == {"accept": (0, 2, 0), "leave": (2, 0, 0), "dead-letter": (0, 0, 2)}[unhandled]
    expected = {
        "accept": "type new has no handler, accepted: 2, dead-lettered: 0",
        "leave": "type new waits for a handler, live workers: 0",
        "dead-letter": "type new has no handler, accepted: 0, dead-lettered: 2",
    }
    assert checked(worker_url, app) == f"exists; unhandled = {unhandled}; {expected[unhandled]}"


def checked(url: str, app: App) -> str:
    """Return what `pgsluice worker check` says about the group."""
    findings = run_checks(resolve(url), choose(app, None, None).values(), with_groups=True)
    return next(each.detail for each in findings if each.name.startswith(f"group {GROUP} "))


def test_type_whose_declaration_was_removed_is_declared_again_before_its_event_is_settled(
    declare, group, send, observer, log_name
):
    group()
    app = declare("paid", "shipped")
    drain(app, handlers=["on_paid"])
    send("shipped")
    observer.execute("delete from sluice.group_type")
    observer.execute("update sluice.share_group set types = '{}', has_others = false")

    drain(declare("paid"))
    assert state(observer, log_name)[0] == 0, "nobody declares it any more"
    send("shipped")
    drain(app, handlers=["on_paid"])
    drain(app, handlers=["on_shipped"])
    assert app.seen == [("shipped", 0)]


def test_equal_keys_on_the_server_are_handled_one_after_the_other(
    declare, group, observer, log_name, worker_url
):
    group(key="$.c")
    app = App(worker_url, name="shop")
    running, most = [], []

    @app.handler(log=log_name, group=GROUP)
    async def each(payload: dict[str, float]) -> None:
        running.append(payload["n"])
        most.append(len(running))
        await asyncio.sleep(0.05)
        running.remove(payload["n"])

    for data in ('{"c":1e2,"n":1}', '{"c":100,"n":2}'):
        observer.execute("select pgq.insert_event(%s, 't', %s)", [log_name, data])

    assert drain(app)["each"].done == 2
    assert most == [1, 1]


def test_consumer_logs_each_type_without_a_handler_once(declare, send, observer, log_name, caplog):
    observer.execute("select pgq.register_consumer(%s, 'ledger')", [log_name])
    send("new", "paid", "new")
    observer.execute("select pgq.force_tick(%s), pgq.ticker(%s)", [log_name, log_name])
    app = declare("paid", consumer="ledger")

    with caplog.at_level(logging.WARNING):
        drain(app)

    assert app.seen == [("paid", 1)]
    assert len([each for each in caplog.messages if "type='new' outcome=skip" in each]) == 1


def test_part_of_the_handlers_of_a_consumer_is_refused(declare):
    app = declare("paid", "shipped", consumer="ledger")

    for refused in (
        lambda: Worker(app, handlers=["on_paid"]),
        lambda: choose(app, ["on_paid"], None),
    ):
        with pytest.raises(ConfigurationError, match="on_shipped would not run.*run all of them"):
            refused()
    Worker(app, handlers=["on_paid", "on_shipped"])


def test_events_of_others_do_not_end_a_drain_before_the_own_ones(
    declare, group, send, observer, log_name
):
    group()
    observer.execute(
        "select pgq.insert_event(%s, 'shipped', n::text) from generate_series(1, 25000) as n",
        [log_name],
    )
    send("paid")
    app = declare("paid", "shipped")

    assert drain(app, handlers=["on_paid"], idle_s=0.01)["on_paid"].done == 1
    assert (
        value(
            observer,
            "select waiting from sluice.list_types(%s, %s) where ev_type = 'shipped'",
            log_name,
            GROUP,
        )
        == 25000
    )


def test_check_passes_for_a_role_that_may_claim_but_not_list_event_types(
    declare, group, observer, worker_url
):
    group()
    listing = "execute on function sluice.list_types(text, text)"
    observer.execute(
        f"create role claimer login; grant sluice_reader to claimer; revoke {listing} from sluice_reader"
    )
    try:
        found = checked(make_conninfo(worker_url, user="claimer"), declare("paid"))
    finally:
        observer.execute(f"grant {listing} to sluice_reader; drop role claimer")

    assert found.startswith("not checked")
