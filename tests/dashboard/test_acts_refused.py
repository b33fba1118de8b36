"""Acts that are refused: read-only dashboards, missing rights, other sites, standbys, and missing servers and schemas."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest

from pgsluice import Operations, schema
from pgsluice.dashboard.guard import HEADERS
from pgsluice.embedded import EmbeddedServer
from support import rows, wait_until
from support.dashboard import CASES, SAME_ORIGIN, form_of, open_client, submit
from support.standby import follow, remove

TOKEN = "A" * 22
ACTIONS = "select count(*) from sluice.action"


def install(server):
    """Install the schema on a server, and create a queue."""
    with psycopg.connect(server.url()) as connection:
        schema.install(connection)
        connection.execute("select pgmq.create('orders')")


@pytest.fixture(scope="module")
def acted(world):
    """Returns the number of recorded actions of the shared database."""
    connection = world.connect()
    yield lambda: rows(connection, ACTIONS)
    connection.close()


@pytest.fixture(scope="module")
def read_only(world):
    with open_client(world.url, allow_actions=False) as client:
        yield client


@pytest.fixture(scope="module", params=["sluice_monitor", "sluice_reader"])
def member(request, as_role, world):
    """A dashboard whose role is a member of another."""
    with open_client(as_role(world, request.param)) as client:
        yield client


@pytest.mark.parametrize("case", CASES, ids=str)
def test_read_only_dashboard_refuses_each_form(read_only, acted, case):
    client = read_only
    before = acted()

    shown = client.get(f"/act/{case.act}", params=case.arguments)
    answer = client.post(f"/act/{case.act}", data=case.arguments | case.filled | {"token": TOKEN})

    assert shown.status_code == 403
    assert "This dashboard is read-only" in shown.text
    assert answer.status_code == 403
    assert "read-only" in answer.text
    assert acted() == before


def test_read_only_dashboard_refuses_every_post(read_only):
    for path in (
        "/",
        "/queues",
        "/job?id=x",
        "/act/none",
        "/live",
        "/static/dashboard.css",
        "/none",
    ):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert read_only.request(method, path).status_code == 403


@pytest.mark.parametrize("case", CASES, ids=str)
def test_role_that_lacks_the_right_is_refused(member, acted, case):
    before = acted()

    shown = member.get(f"/act/{case.act}", params=case.arguments)
    answer = member.post(f"/act/{case.act}", data=case.arguments | case.filled | {"token": TOKEN})

    for page in (shown, answer):
        assert page.status_code == 403
        assert "lacks a right" in page.text
        assert "grant sluice_admin to role_" in page.text
    assert acted() == before


def test_right_is_checked_again_by_the_database(as_role, database_18, opened, work, connection):
    """The role loses a right that has_function_privilege does not know of, between the form and its answer."""
    work.create("orders")
    client = opened(as_role(database_18, "sluice_admin"), allow_actions=True)
    client.headers.update(SAME_ORIGIN)
    action, fields = form_of(client.get("/act/send?queue=orders").text)
    connection.execute("revoke insert on pgmq.q_orders from sluice_admin, sluice_writer")

    answer = client.post(action, data=fields)

    assert answer.status_code == 403
    assert "permission denied" in answer.text
    assert Operations(connection).list_actions() == []


@pytest.fixture(scope="module")
def strange(world):
    """A client that sends no header of a browser by itself."""
    with open_client(world.url) as client:
        del client.headers["sec-fetch-site"]
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "origin": "http://localhost"},
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:81"},
        {"origin": "null"},
        {},
    ],
    ids=str,
)
def test_form_of_another_site_is_refused(strange, world, acted, headers):
    client, before = strange, acted()
    fields = {"queue": "orders", "message": "1", "token": TOKEN}

    answer = client.post("/act/send", data=fields, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert acted() == before
    assert client.post("/job", data={"id": "x"}, headers=headers).status_code == 403


@pytest.mark.parametrize("headers", [SAME_ORIGIN, {"origin": "http://localhost"}], ids=str)
def test_form_of_the_dashboard_is_accepted(strange, headers):
    fields = {"queue": "orders", "message": "1", "token": uuid4().hex}

    answer = strange.post("/act/send", data=fields, headers=headers)

    assert "was sent to queue orders" in answer.text


def test_object_that_another_transaction_has_locked_is_said_to_be_busy(
    acting, work, database_18, monkeypatch
):
    monkeypatch.setattr("pgsluice.dashboard.pages.act._STATEMENT_S", 0.2)
    work.create("orders")
    action, fields = form_of(acting.get("/act/pause_queue?queue=orders").text)
    with database_18.connect(autocommit=False) as holder:
        holder.execute("lock table sluice.queue_settings in exclusive mode")

        answer = acting.post(action, data=fields)

    assert answer.status_code == 503
    assert "The database is busy" in answer.text
    assert 'data-live=""' in answer.text
    assert "is paused" in acting.post(action, data=fields).text


def test_database_without_the_schema_names_the_command(opened, server_18, connection):
    connection.execute("create database bare template template0")
    try:
        client = opened(server_18.url("bare"), allow_actions=True)
        client.headers.update(SAME_ORIGIN)
        for answer in (
            client.get("/act/send?queue=orders"),
            client.post("/act/send", data={"queue": "orders", "message": "1", "token": TOKEN}),
        ):
            assert answer.status_code == 503
            assert "pgsluice schema install" in answer.text
    finally:
        connection.execute("drop database bare with (force)")


@pytest.mark.slow
def test_standby_refuses_with_a_page_that_names_a_hint(servers_folder):
    primary = EmbeddedServer(servers_folder / "acts-primary", version=18, options={"fsync": "off"})
    standby = EmbeddedServer(servers_folder / "acts-standby", version=18, options={"fsync": "off"})
    try:
        primary.start()
        install(primary)
        follow(primary, standby)
        with open_client(standby.url()) as client:
            shown = client.get("/act/send?queue=orders")
            answer = client.post(
                "/act/send", data={"queue": "orders", "message": "1", "token": TOKEN}
            )
            assert client.get("/").status_code == 200
        for page in (shown, answer):
            assert page.status_code == 409
            assert "target_session_attrs=read-write" in page.text
    finally:
        remove(standby, primary)


@pytest.mark.slow
def test_server_that_goes_away_and_comes_back(servers_folder):
    server = EmbeddedServer(servers_folder / "acts-restart", version=18, options={"fsync": "off"})
    try:
        server.start()
        install(server)
        with open_client(server.url()) as client:
            action, fields = form_of(client.get("/act/send?queue=orders").text)
            server.stop("immediate")

            for answer in (
                client.get("/"),
                client.get("/act/send?queue=orders"),
                client.post(action, data=fields),
            ):
                assert answer.status_code == 503
                assert "No connection to the server" in answer.text
                assert all(answer.headers[name] == value for name, value in HEADERS.items())

            server.start()
            wait_until(lambda: client.get("/").status_code == 200, "the dashboard to connect again")
            assert "Message 1 was sent" in client.post(action, data=fields).text
            assert submit(client, "pause_queue", {"queue": "orders"}).status_code == 200
    finally:
        remove(server)
