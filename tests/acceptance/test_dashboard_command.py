"""`pgsluice dashboard` as a process: its address, refusals and shutdown."""

from __future__ import annotations

import base64
import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest

from support import value

PGSLUICE = [sys.executable, "-c", "from pgsluice.cli.main import main; main()"]


@contextlib.contextmanager
def dashboard(url, *options):
    """A dashboard at any free port, and its address."""
    process = subprocess.Popen(
        [*PGSLUICE, "dashboard", "--port", "0", *options, "--dsn", url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        printed = process.stderr.readline()
        assert re.fullmatch(r"serving http://127\.0\.0\.1:\d+/.*\n", printed), printed
        yield process, printed.split()[1]
    finally:
        process.kill()
        process.communicate()


def text_of(address, **headers):
    with urlopen(Request(address, headers=headers), timeout=30) as response:
        return response.read().decode()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_signal_ends_it_within_two_seconds_although_pages_are_open(database_18, number):
    with dashboard(database_18.url) as (process, address):
        assert "<h1>Overview</h1>" in text_of(address)
        streams = [urlopen(f"{address}live", timeout=30) for _ in range(3)]
        for stream in streams:
            assert stream.readline() == b"retry: 1000\n"

        began_at_s = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=10)

        assert time.monotonic() - began_at_s < 2
        assert (process.returncode, out, err) == (0, "", "")
        for stream in streams:
            stream.close()


def test_a_start_with_actions_prints_an_address_that_lets_a_browser_act(database_18):
    """A proxy on this machine that sends this Host shares the address, but not the key."""
    form = urlencode({"queue": "orders", "message": "1", "token": "A" * 22}).encode()
    same_origin = {"Sec-Fetch-Site": "same-origin"}
    with database_18.connect() as connection:
        connection.execute("select pgmq.create('orders')")
        with dashboard(database_18.url, "--allow-actions") as (_, printed):
            address, _, key = printed.partition("?key=")
            assert len(key) >= 32
            act = Request(f"{address}act/send", form, same_origin)
            with pytest.raises(HTTPError) as refused:
                urlopen(act, timeout=30)
            refused.value.close()
            browser = build_opener(HTTPCookieProcessor())
            browser.open(printed, timeout=30).close()
            browser.open(act, timeout=30).close()

        assert refused.value.code == 403
        assert value(connection, "select count(*) from pgmq.q_orders") == 1


@pytest.mark.slow
def test_page_below_the_path_of_a_proxy_links_to_that_path(database_18):
    with dashboard(database_18.url, "--path", "/pgsluice/") as (_, address):
        assert address.endswith("/pgsluice/")
        root = address.removesuffix("pgsluice/")
        pages = [text_of(f"{root}{path}") for path in ("", "pgsluice", "pgsluice/")]

    # A proxy may remove the path or keep it.
    for page in pages:
        links = re.findall(r'(?:href|src|data-live)="([^"#]*)"', page)
        assert len(links) > 10
        assert all(link.startswith("/pgsluice/") for link in links), links


@pytest.mark.slow
def test_password_is_asked_for(database_18, monkeypatch):
    monkeypatch.setenv("PGSLUICE_DASHBOARD_PASSWORD", "right")
    with dashboard(database_18.url, "--host", "127.0.0.1") as (_, address):
        with pytest.raises(HTTPError) as refused:
            text_of(address)
        encoded = base64.b64encode(b"ann:right").decode()
        shown = text_of(address, Authorization=f"Basic {encoded}")

    assert refused.value.code == 401
    assert refused.value.headers["WWW-Authenticate"].startswith("Basic")
    refused.value.close()
    assert "ann" in shown


def test_taken_port_is_named_with_the_option(command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command("dashboard", "--port", str(port), code=3)

    assert done.stderr == (
        f"pgsluice: cannot listen on 127.0.0.1:{port} for --port (Address already in use); choose another port\n"
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_address_that_others_reach_is_refused_without_a_password(command, host):
    done = command("dashboard", "--host", host, "--port", "0", code=3)

    assert f"a dashboard at {host} can be reached from other machines" in done.stderr
    assert "PGSLUICE_DASHBOARD_PASSWORD" in done.stderr


def test_empty_password_in_the_environment_is_refused(command, monkeypatch):
    monkeypatch.setenv("PGSLUICE_DASHBOARD_PASSWORD", "")

    assert "is set but empty" in command("dashboard", "--port", "0", code=3).stderr


def test_path_without_a_slash_is_refused_with_the_right_one(command):
    done = command("dashboard", "--path", "queues", "--port", "0", code=3)

    assert "use /queues" in done.stderr
