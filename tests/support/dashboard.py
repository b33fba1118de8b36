"""Forms of the dashboard, filled in and sent as a browser does; and a database with something for each act."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import psycopg
from starlette.testclient import TestClient

from pgsluice import WorkQueue
from pgsluice.dashboard import app
from support.share_groups import GROUP, LOG, acknowledge
from support.share_keys import claimed_keys, make_keyed, send_keys

LOCAL: dict[str, Any] = {"base_url": "http://localhost", "client": ("127.0.0.1", 50_000)}
SAME_ORIGIN = {"sec-fetch-site": "same-origin"}
KEY = "the key of this dashboard"


def open_client(url: str, **options: Any) -> TestClient:
    """Return the client of a dashboard, on this machine and of the same origin; enter it to start the dashboard."""
    return with_key(
        TestClient(
            app(url, **{"refresh_s": 0.1, "allow_actions": True, "key": KEY, **options}),
            headers=SAME_ORIGIN,
            **LOCAL,
        )
    )


def with_key(client: TestClient) -> TestClient:
    """Open the address with the key, as after the start of a dashboard without a password."""
    client.get("/", params={"key": KEY}, follow_redirects=False)
    return client


class _Form(HTMLParser):
    """Collects the fields of the form of an act, as a browser would send them."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self._is_inside = False
        self._area: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        if tag == "form" and named.get("class") == "act":
            self.action, self._is_inside = named["action"], True
        elif self._is_inside and tag == "input":
            self.fields[named["name"]] = named.get("value", "")
        elif self._is_inside and tag == "textarea":
            self._area = named["name"]
            self.fields[self._area] = ""

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self.fields[self._area] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            # A browser ignores the line break after the tag.
            self.fields[self._area] = self.fields[self._area].removeprefix("\n")
            self._area = None
        elif tag == "form":
            self._is_inside = False


def form_of(page: str) -> tuple[str | None, dict[str, str]]:
    """Return the address and the fields of the form of a page; None: it has none."""
    form = _Form()
    form.feed(page)
    return form.action, form.fields


def unlabelled(page: str) -> str:
    """Return a page without the heads of columns that its cells repeat."""
    return re.sub(r' data-label="[^"]*"', "", page)


def submit(
    client: TestClient, act: str, arguments: dict[str, Any], *, follow: bool = True, **filled: str
) -> Any:
    """Open the form of an act, fill it in, and send it."""
    shown = client.get(f"/act/{act}", params=arguments)
    assert shown.status_code == 200, shown.text
    action, fields = form_of(shown.text)
    assert action is not None, shown.text
    return client.post(action, data=fields | filled, follow_redirects=follow)


@dataclass(frozen=True)
class Case:
    """An act with its arguments, what is filled in, and its name in the record of actions."""

    act: str
    arguments: dict[str, Any]
    recorded: str
    filled: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.act


CASES = [
    Case("send", {"queue": "orders"}, "send", {"message": '{"n": 1.10}', "delay": "5m"}),
    Case("retry_message", {"queue": "orders", "msg_id": 1}, "set_vt"),
    Case("archive_message", {"queue": "orders", "msg_id": 2}, "archive"),
    Case("delete_message", {"queue": "orders", "msg_id": 3}, "delete"),
    Case("purge_queue", {"queue": "full"}, "purge_messages"),
    Case("pause_queue", {"queue": "orders"}, "set_queue_options", {"reason": "bank is down"}),
    Case("resume_queue", {"queue": "held"}, "set_queue_options"),
    Case("set_retention", {"queue": "orders"}, "set_queue_options", {"retention": "7d"}),
    Case("redrive", {"queue": "failing"}, "redrive"),
    Case("purge_dead_letters", {"queue": "failed"}, "purge_dead_letters"),
    Case("unpark_messages", {"queue": "keyed", "key": "k"}, "unpark_key"),
    Case("unregister_consumer", {"log": "audit", "consumer": "billing"}, "unregister_consumer"),
    Case("unpark_key", {"log": LOG, "group": GROUP, "key": "a"}, "unpark_key"),
    Case("redrive", {"queue": "audit", "consumer": "failing"}, "redrive"),
    Case("purge_dead_letters", {"queue": "audit", "consumer": "failed"}, "purge_dead_letters"),
    Case("run_schedule", {"name": "nightly"}, "run_schedule"),
    Case("pause_schedule", {"name": "nightly"}, "pause_schedule"),
    Case("resume_schedule", {"name": "held"}, "resume_schedule"),
]


def make_world(connection: psycopg.Connection) -> None:
    """Create what the acts of `CASES` act on."""
    for name in ("orders", "full", "held", "failing", "failed", "keyed"):
        connection.execute("select pgmq.create(%s)", (name,))
        connection.execute(
            "select pgmq.send_batch(%s, array_fill('{}'::jsonb, '{4}'), "
            "array_fill('{\"x-pgmq-group\": \"k\"}'::jsonb, '{4}'))",
            (name,),
        )
    WorkQueue(connection).set_queue_options("held", paused=True, pause_reason="provider down")
    for name in ("failing", "failed"):
        connection.execute("select pgmq.read(%s, 600, 3)", (name,))
        connection.execute(
            "select sluice.reject(%s, id, 1, 'bad shape', 'trace') from generate_series(1, 3) id",
            (name,),
        )
    WorkQueue(connection).set_queue_options("keyed", when_waiting="park")
    connection.execute("select sluice.claim_messages('keyed', 30, 9)")
    connection.execute("select sluice.release('keyed', 1, 1, 600)")
    connection.execute("select sluice.claim_messages('keyed', 30, 9)")
    connection.execute(
        "select sluice.schedule(name, 'orders', '{}', every => '1 day') from unnest('{nightly, held}'::text[]) name"
    )
    connection.execute("select sluice.pause_schedule('held')")
    connection.execute(
        "select pgq.create_queue('audit'), pgq.register_consumer('audit', 'billing')"
    )
    connection.execute(
        "select sluice.create_group('audit', name) from unnest('{failing, failed}'::text[]) name"
    )
    connection.execute(
        "select pgq.insert_event('audit', 't', n::text) from generate_series(1, 3) n"
    )
    for name in ("failing", "failed"):
        (claim_id,) = connection.execute(
            "select distinct claim_id from sluice.claim('audit', %s, 10)", (name,)
        ).fetchone()
        connection.execute(
            "select sluice.acknowledge('audit', %s, %s, 'reject', '{1, 2, 3}', null, 'trace', 'bad')",
            (name, claim_id),
        )
    make_keyed(connection, "park")
    send_keys(connection, "aab")
    acknowledge(connection, claimed_keys(connection, 1)[0], "retry", error="broken")
    acknowledge(connection, claimed_keys(connection)[0])
