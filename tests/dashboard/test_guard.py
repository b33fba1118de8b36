"""Guard of the dashboard: authentication, names of this machine, origins of forms; and the headers of every answer."""

from __future__ import annotations

import base64

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from pgsluice.dashboard import app
from pgsluice.dashboard.guard import HEADERS, basic
from support.dashboard import LOCAL, SAME_ORIGIN

NOWHERE = "postgresql://postgres@localhost:1/none?connect_timeout=1"
FILE = "/static/dashboard.css"
LOGIN = {"authorization": f"Basic {base64.b64encode(b'alice:secret').decode()}"}


@pytest.fixture(scope="module")
def bare():
    """Dashboards whose database is not needed: read-only, acting, and with a password."""
    made = {
        "open": app(NOWHERE),
        "acting": app(NOWHERE, allow_actions=True),
        "closed": app(NOWHERE, authenticate=basic("secret")),
    }
    yield made
    for each in made.values():
        each.state.dashboard.database.close()


def client_of(dashboard, **options):
    return TestClient(dashboard, **{**LOCAL, **options})


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def request_with(authorization):
    headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1"))]
    return Request({"type": "http", "headers": headers})


@pytest.mark.parametrize(
    ("authorization", "viewer"),
    [
        (f"Basic {encoded('alice:s:crét')}", "alice"),
        (f"basic {encoded('alice:s:crét')}", "alice"),
        (f"Basic {encoded(':s:crét')}", ""),
        (f"Basic {encoded('zoë:s:crét')}", "zoë"),
        (f"Basic {encoded('alice:s:cret')}", None),
        (f"Basic {encoded('alice:')}", None),
        (f"Basic {encoded('s:crét')}", None),
        (f"Basic {encoded('alice')}", None),
        (f"Bearer {encoded('alice:s:crét')}", None),
        (f"Basic {encoded('alice:s:crét')}!", None),
        (f"Basic {encoded('alice:s:crét')[:-1]}", None),
        (f"Basic {base64.b64encode(bytes([255, 58, 255])).decode()}", None),
        ("Basic é", None),
        ("Basic", None),
        ("", None),
        (None, None),
    ],
)
def test_basic_authentication(authorization, viewer):
    assert basic("s:crét")(request_with(authorization)) == viewer


def test_stranger_is_asked_for_a_password_and_sees_nothing(bare):
    client = client_of(bare["closed"])

    for path in ("/", FILE, "/live", "/act/send?queue=orders", "/none"):
        answer = client.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Basic realm="pgsluice", charset="UTF-8"'
        assert answer.text == "Authentication is required.\n"
    assert client.get(FILE, headers=LOGIN).status_code == 200


def test_with_a_password_other_machines_and_proxies_are_answered(bare):
    client = client_of(bare["closed"], base_url="https://ops.example", client=("203.0.113.7", 1))

    answer = client.get(FILE, headers={**LOGIN, "x-forwarded-for": "198.51.100.1"})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.8.8.8:1", "[::1]", "[::1]:8000"],
)
def test_without_authentication_this_machine_is_answered(bare, host):
    for address in ("127.0.0.1", "::1"):
        client = client_of(bare["open"], client=(address, 1))
        assert client.get(FILE, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:8000"),
        *(
            "192.168.0.7",
            "0.0.0.0",
            "user@evil.example",
            "localhost@evil.example",
            "[",
            "[::1",
            "",
            "::1",
        ),
    ],
)
def test_without_authentication_other_names_are_refused(bare, host):
    """A page of another site may have its own name resolve to this machine."""
    answer = client_of(bare["open"]).get(FILE, headers={"host": host})

    assert answer.status_code == 403
    assert "no authentication" in answer.text


@pytest.mark.parametrize("address", ["192.168.0.7", "203.0.113.7", "2001:db8::1", "testclient"])
def test_without_authentication_other_machines_are_refused(bare, address):
    answer = client_of(bare["open"], client=(address, 1)).get(FILE)

    assert answer.status_code == 403


@pytest.mark.parametrize(
    "header", ["x-forwarded-for", "x-forwarded-host", "forwarded", "x-real-ip"]
)
def test_without_authentication_requests_through_a_proxy_are_refused(bare, header):
    assert client_of(bare["open"]).get(FILE, headers={header: "127.0.0.1"}).status_code == 403


def test_name_of_the_viewer_is_shown(opened):
    client = opened(authenticate=lambda request: request.headers.get("x-user"))

    assert "alice &lt;b&gt;" in client.get("/", headers={"x-user": "alice <b>"}).text
    assert client.get("/").status_code == 401


def with_headers(answer):
    missing = {name for name, value in HEADERS.items() if answer.headers.get(name) != value}
    assert not missing, (
        f"{answer.request.method} {answer.url}: {answer.status_code} without {missing}"
    )
    assert answer.headers["cache-control"]
    return answer


def test_every_answer_has_the_security_headers(bare, client, acting, work):
    work.create("orders")
    for path in (
        "/",
        "/queues",
        "/act/send?queue=orders",
        "/act/none",
        "/none",
        "/job?id=x",
        FILE,
        "/static/none",
    ):
        with_headers(acting.get(path))
        with_headers(acting.head(path))
        with_headers(client.get(path))
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        with_headers(acting.request(method, "/queues"))
        with_headers(client.request(method, "/queues"))
    redirect = with_headers(acting.get("/queues/", follow_redirects=False))
    assert redirect.is_redirect
    done = {"queue": "orders", "message": "1", "token": "A" * 22}
    after = with_headers(acting.post("/act/send", data=done, follow_redirects=False))
    assert after.status_code == 303
    with_headers(client_of(bare["open"], client=("203.0.113.7", 1)).get("/"))  # 403
    with_headers(client_of(bare["closed"]).get("/"))  # 401


def test_error_of_the_dashboard_itself_has_the_headers_and_no_details(opened):
    def fail(request):
        raise RuntimeError("secret detail")

    client = opened(authenticate=fail)
    client._transport.raise_server_exceptions = False

    answer = with_headers(client.get("/"))

    assert answer.status_code == 500
    assert "secret" not in answer.text


def test_pages_are_not_stored_and_files_are(client):
    assert client.get("/").headers["cache-control"] == "no-store"
    assert "immutable" in client.get(FILE).headers["cache-control"]


def test_policy_allows_no_inline_script_and_no_other_site():
    policy = HEADERS["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_method_that_a_page_does_not_have_is_refused(acting):
    acting.headers.update(SAME_ORIGIN)

    assert acting.post("/queues").status_code == 405
    assert acting.request("TRACE", "/act/send").status_code == 405
