"""The examples of the guide, run as they are: the dashboard below a path of a FastAPI, Starlette or Django host."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from dashboard.conftest import LOCAL
from pgsluice.dashboard import app
from support import wait_until
from support.http_answers import status_of, text_of
from support.object_store import free_port
from support.processes import environment, write_example

LINK = re.compile(r'(?:href|src|action|data-live)="([^"#?][^"]*)"')
SETTINGS = """
import os
from pgsluice.contrib.django import database
SECRET_KEY = "a secret of the test"
ALLOWED_HOSTS = ["127.0.0.1"]
DATABASES = {"default": database(os.environ["SHOP_DSN"])}
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"]
ROOT_URLCONF = "mysite.urls"
"""
URLS = """
from django.http import HttpResponse
from django.urls import path
urlpatterns = [path("", lambda request: HttpResponse("the shop"))]
"""
SIGN_IN = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
call_command("migrate", verbosity=0)
for name, is_staff in (("ann", True), ("bob", False)):
    client = Client()
    client.force_login(User.objects.create_user(name, is_staff=is_staff))
    print(client.cookies["sessionid"].value)
"""


def test_pages_of_a_mounted_dashboard_link_below_its_path(database_18):
    def shop(request):
        raise AssertionError(request.url)

    host = Starlette(
        routes=[
            Mount("/ops", routes=[Mount("/pgsluice", app(database_18.url), name="queues")]),
            Route("/queues", shop),
        ]
    )
    client = TestClient(host, **LOCAL)

    for path in ("/ops/pgsluice/", "/ops/pgsluice/queues", "/ops/pgsluice/static/missing"):
        links = LINK.findall(client.get(path).text)
        assert len(links) > 10
        assert all(link.startswith("/ops/pgsluice/") for link in links), links


@contextmanager
def hosted(module: str, folder: Path, url: str) -> Iterator[str]:
    """Run a host with uvicorn; yield its address."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        module,
        "--port",
        str(port),
        "--timeout-graceful-shutdown",
        "1",
    ]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(folder, PGSLUICE_DSN=url),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(
            lambda: process.poll() is not None or status_of(address) != 0, "the host to answer"
        )
        yield address
    finally:
        process.terminate()
        output = process.communicate(timeout=30)[0]
        print(output)
    assert "Traceback" not in output


def check(address: str, viewer: str, cookie: str, *strangers: str) -> None:
    """Check links, files, live stream and authentication of a dashboard."""
    root = address.removesuffix("/pgsluice")
    assert [status_of(f"{address}/queues", each) for each in ("", *strangers)] == [
        401,
        *(401 for _ in strangers),
    ]
    page = text_of(f"{address}/queues", cookie)
    assert f">{viewer}<" in page or viewer in page
    links = set(LINK.findall(page))
    assert len(links) > 10
    assert all(link.startswith("/pgsluice/") for link in links)
    for link in links - {"/pgsluice/live"}:
        assert status_of(f"{root}{link}", cookie) == 200, link
    with urlopen(Request(f"{address}/live", headers={"Cookie": cookie}), timeout=30) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.readline() == b"retry: 1000\n"
        assert stream.readline() == b"\n"
        assert stream.readline() == b"event: refresh\n"


@pytest.mark.slow
@pytest.mark.parametrize("host", ["fastapi", "starlette"])
def test_dashboard_in_a_host_with_its_authentication(database_18, tmp_path, host):
    write_example("dashboard", f"{host}_host.py", tmp_path)

    with hosted(f"{host}_host:host", tmp_path, database_18.url) as address:
        assert "the shop" in text_of(f"{address}/")
        check(f"{address}/pgsluice", "ann", "session=secret", "session=wrong")


@pytest.mark.slow
def test_dashboard_in_a_django_project_for_its_staff(database_18, tmp_path, monkeypatch):
    pytest.importorskip("django", reason="Django is a dependency of development")
    (tmp_path / "mysite").mkdir()
    for name, text in (("__init__", ""), ("settings", SETTINGS), ("urls", URLS)):
        (tmp_path / "mysite" / f"{name}.py").write_text(text, encoding="utf-8")
    write_example("dashboard", "mysite/asgi.py", tmp_path)
    monkeypatch.setenv("SHOP_DSN", database_18.url)
    signed_in = subprocess.run(
        [sys.executable, "-c", SIGN_IN], cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    ann, bob = (f"sessionid={key}" for key in signed_in.stdout.split())

    elsewhere = "postgresql://127.0.0.1:1/elsewhere"  # the dashboard shows the database of Django
    with hosted("mysite.asgi:application", tmp_path, elsewhere) as address:
        assert text_of(f"{address}/") == "the shop"
        check(f"{address}/pgsluice", "ann", ann, bob, "sessionid=wrong")
