"""Guard of the dashboard: authentication, names of this machine, origins of forms; and the headers of every answer."""

from __future__ import annotations

import base64

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from pgsluice.dashboard import app
from pgsluice.dashboard.guard import HEADERS, basic
from pgsluice.dashboard.secrets import Basic, Guesses, TooManyGuessesError
from support.dashboard import KEY, LOCAL, SAME_ORIGIN, with_key

NOWHERE = "postgresql://postgres@localhost:1/none?connect_timeout=1"
FILE = "/static/dashboard.css"
LOGIN = {"authorization": f"Basic {base64.b64encode(b'alice:secret').decode()}"}


@pytest.fixture(scope="module")
def bare():
    """Dashboards whose database is not needed: read-only, acting, and with a password."""
    made = {
        "open": app(NOWHERE),
        "acting": app(NOWHERE, allow_actions=True, key=KEY),
        "keyless": app(NOWHERE, allow_actions=True),
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
    "header",
    ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "x-real-ip", "via"],
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


def post(client):
    return client.post("/act/send", headers=SAME_ORIGIN, data={"queue": "orders", "message": "1"})


def test_without_a_password_a_form_is_refused_without_the_key_that_the_start_printed(bare):
    """A proxy on this machine that sends its own address as Host looks like a browser on this machine."""
    client = client_of(bare["acting"])

    for cookies in (
        {},
        {"pgsluice_key_80": "wrong"},
        {"pgsluice_key_80": ""},
        {"pgsluice_key_81": KEY},
    ):
        client.cookies.clear()
        client.cookies.update(cookies)
        answer = post(client)
        assert answer.status_code == 403
        assert "the address that its start printed" in answer.text
    for key in ("", "wrong", f"{KEY}x"):
        assert "set-cookie" not in client.get(FILE, params={"key": key}).headers


def test_the_address_with_the_key_lets_a_browser_act_and_does_not_stay_in_its_history(bare):
    client = client_of(bare["acting"])

    answer = client.get("/queues", params={"key": KEY}, follow_redirects=False)

    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly; SameSite=Strict; Path=/" in cookie
    assert "the address that its start printed" not in post(client).text
    assert "another site" in client.post("/act/send").text


def test_without_a_password_and_without_a_key_no_form_is_accepted(bare):
    for client in (client_of(bare["keyless"]), with_key(client_of(bare["keyless"]))):
        answer = post(client)
        assert answer.status_code == 403
        assert "Actions need authentication" in answer.text


def test_without_authentication_a_request_of_http_1_0_is_refused(bare):
    """nginx sends it by default, without any header that tells of it."""

    async def as_proxied(scope, receive, send):
        await bare["open"]({**scope, "http_version": "1.0"}, receive, send)

    assert client_of(as_proxied).get(FILE).status_code == 403


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


def test_wrong_passwords_wait_longer_and_longer_and_the_right_one_too():
    clock = Clock()
    guesses = Guesses(clock)
    check = Basic("secret", guesses)
    wrong = request_with(f"Basic {encoded('alice:wrong')}")
    right = f"Basic {encoded('alice:secret')}"
    for _ in range(10):
        assert check(wrong) is None
    waits = []
    for _ in range(9):
        with pytest.raises(TooManyGuessesError) as caught:
            check(request_with(right))
        waits.append(caught.value.wait_s)
        clock.now_s += caught.value.wait_s
        assert check(wrong) is None

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    clock.now_s += 61
    assert check(request_with(right)) == "alice"
    assert check(request_with(None)) is None  # no guess


def test_a_browser_that_gave_the_password_does_not_wait_for_the_guesses_of_others():
    dashboard = app(NOWHERE, authenticate=basic("secret"))
    known = client_of(dashboard, headers=LOGIN)
    assert known.get(FILE).status_code == 200
    stranger = client_of(dashboard)
    codes = [stranger.get(FILE, auth=("a", f"guess {n}")).status_code for n in range(12)]

    assert codes == [401] * 10 + [429] * 2
    answer = stranger.get(FILE, headers=LOGIN)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert known.get(FILE).status_code == 200
    assert stranger.get(FILE).status_code == 401  # asks, and is no guess
    dashboard.state.dashboard.database.close()
