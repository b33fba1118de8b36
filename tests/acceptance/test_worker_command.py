"""`pgsluice worker` processes on a real server: signals, outages, health, logs, start errors."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgsluice import WorkQueue, schema
from pgsluice.embedded import EmbeddedServer
from support import rows, value, wait_until
from support.processes import environment

PGSLUICE = [sys.executable, "-m", "pgsluice", "worker"]
SHOP = """
import asyncio, os, time
from pathlib import Path
from pgsluice import App, RetryPolicy

app = App()
folder = Path(os.environ["SHOP"])

def note(line):
    with (folder / "notes").open("a") as file:
        file.write(f"{line}\\n")

@app.handler("slow_async", concurrency=1, lease_s=60)
async def slow_async(payload: dict, context) -> None:
    note(f"begin {payload['n']} {context.attempt}")
    while not (folder / "gate").exists():
        await asyncio.sleep(0.01)
    note(f"end {payload['n']}")

@app.handler("slow_sync", concurrency=1, lease_s=60)
def slow_sync(payload: dict, context) -> None:
    note(f"begin {payload['n']} {context.attempt}")
    while not (folder / "gate").exists():
        time.sleep(0.01)
    note(f"end {payload['n']}")

@app.handler("quick", retry=RetryPolicy(max_attempts=1), lease_s=5)
async def quick(payload: dict) -> None:
    note(f"quick {payload['n']} {os.getpid()} {time.time()}")
    await asyncio.sleep(payload.get("takes_s", 0))
    if "forward" in payload:
        await quick.send_async({"n": payload["forward"]})
    if "bad" in payload:
        raise ValueError(payload["bad"])
"""


class Shop:
    """A folder with an app, and the workers that run it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        (folder / "shop.py").write_text(SHOP)
        (folder / "notes").touch()
        (folder / "log").touch()

    @property
    def notes(self) -> list[str]:
        return (self.folder / "notes").read_text().splitlines()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def open_gate(self) -> None:
        (self.folder / "gate").touch()

    @contextlib.contextmanager
    def working(self, *options, url=None):
        """Run a worker; its output goes to the log."""
        with (self.folder / "log").open("a") as log:
            process = subprocess.Popen(
                [*PGSLUICE, "run", "shop:app", *options, "--dsn", url or self.url],
                cwd=self.folder,
                env=environment(self.folder, SHOP=str(self.folder)),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                yield process
            except BaseException:
                print(self.log)
                raise
            finally:
                process.kill()
                process.wait()

    def run(self, *arguments, url=None, code=0):
        """Run a command to its end; return its result."""
        done = subprocess.run(
            [*PGSLUICE, *arguments, "--dsn", url or self.url],
            cwd=self.folder,
            env=environment(self.folder, SHOP=str(self.folder)),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture
def shop(tmp_path, database_18):
    with database_18.connect() as connection:
        for name in ("slow_async", "slow_sync", "quick"):
            WorkQueue(connection).create(name)
        connection.execute(
            "create view claimed as select 'a' as queue, * from pgmq.q_slow_async union all "
            "select 's', * from pgmq.q_slow_sync union all select 'q', * from pgmq.q_quick"
        )
    return Shop(tmp_path, database_18.url)


def claimed(connection):
    """Return the number of claimed messages."""
    return value(connection, "select count(*) from claimed where vt > clock_timestamp()")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def health(port, path="/"):
    """Return the response of the health endpoint, or None without one."""
    with (
        contextlib.suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer,
    ):
        return json.load(answer)
    return None


@pytest.mark.parametrize("style", ["async", "sync"])
def test_the_first_signal_lets_a_handler_finish_and_gives_the_rest_back_uncounted(
    database_18, shop, style
):
    queue = f"slow_{style}"
    with database_18.connect() as connection:
        WorkQueue(connection).send_batch(queue, [{"n": n} for n in range(1, 4)])
        with shop.working("--prefetch", "2", "--handlers", queue) as process:
            wait_until(lambda: shop.notes == ["begin 1 1"], "the handler to start")
            wait_until(lambda: claimed(connection) == 3, "all to be claimed")
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: claimed(connection) == 1, "the other messages to be released")
            shop.open_gate()
            assert process.wait(timeout=20) == 0

        assert shop.notes == ["begin 1 1", "end 1"]
        assert claimed(connection) == 0
        shop.run("run", "shop:app", "--until-empty", "--idle-timeout", "0", "--no-maintenance")
        assert shop.notes[2:] == ["begin 2 1", "end 2", "begin 3 1", "end 3"]
        assert value(connection, f"select count(*) from pgmq.a_{queue}") == 3


@pytest.mark.slow
@pytest.mark.parametrize("style", ["async", "sync"])
def test_the_second_signal_ends_it_at_once(database_18, shop, style):
    queue = f"slow_{style}"
    with database_18.connect() as connection:
        WorkQueue(connection).send_batch(queue, [{"n": n} for n in range(1, 4)])
        with shop.working(
            "--prefetch", "2", "--lease", "3s", "--handlers", queue, "--no-maintenance"
        ) as process:
            wait_until(lambda: shop.notes == ["begin 1 1"], "the handler to start")
            process.send_signal(signal.SIGINT)
            wait_until(lambda: claimed(connection) <= 1, "the other messages to be released")
            process.send_signal(signal.SIGTERM)
            began_s = time.monotonic()
            assert process.wait(timeout=20) == 1
            assert time.monotonic() - began_s < 12

        # A thread cannot be stopped; its message is redelivered when the lease expires.
        wait_until(lambda: claimed(connection) == 0, "no message to be claimed", 5)
        assert shop.notes == ["begin 1 1"]


@pytest.mark.slow
def test_signal_stops_an_idle_worker_and_the_health_file_has_its_state(shop):
    path = shop.folder / "health"
    with shop.working("--health-file", str(path), "--supervise") as process:
        wait_until(
            lambda: path.exists() and json.loads(path.read_text())["ready"],
            "the worker to be ready",
        )
        status = json.loads(path.read_text())["processes"]["1"]
        assert [handler["name"] for handler in status["handlers"]] == [
            "slow_async",
            "slow_sync",
            "quick",
        ]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0

    assert not path.exists()


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once_while_it_imports_the_app(shop):
    with (shop.folder / "shop.py").open("a") as module:
        module.write("import sys\nsys.stderr.write('imports\\n')\nwhile True: time.sleep(0.1)\n")
    with shop.working() as process:
        wait_until(lambda: "imports" in shop.log, "the import to start")
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "graceful shutdown" in shop.log, "the first signal")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 1


@pytest.mark.slow
def test_a_process_that_dies_while_the_module_cannot_be_imported_leaves_the_others_at_work(
    database_18, shop
):
    port = free_port()
    module = shop.folder / "shop.py"

    def pids():
        return {int(line.split()[2]) for line in shop.notes if line.startswith("quick")}

    with (
        database_18.connect() as connection,
        shop.working("--processes", "2", "--health-port", str(port), "--no-maintenance") as process,
    ):
        work = WorkQueue(connection)
        wait_until(lambda: health(port, "/ready") is not None, "both to be ready")

        def send_until(condition, what):
            def is_so():
                work.send("quick", {"n": 1})
                return condition()

            wait_until(is_so, what)

        send_until(lambda: len(pids()) == 2, "both to handle messages")
        module.rename(shop.folder / "whole.py")
        module.write_text("import a_module_that_is_not_there\n")
        dead, other = sorted(pids())
        os.kill(dead, signal.SIGKILL)
        wait_until(lambda: 'reason="exited with code 3"' in shop.log, "a retry")
        assert "a_module_that_is_not_there" in shop.log
        assert health(port, "/ready") is None
        assert health(port, "/live") is not None
        report = health(port)["processes"].values()
        assert sorted(each["state"] for each in report) == ["restarting", "running"]
        handled = len(shop.notes)
        work.send("quick", {"n": 2})
        wait_until(lambda: len(shop.notes) > handled, "the other process to continue")
        assert pids() == {dead, other}

        (shop.folder / "whole.py").rename(module)
        wait_until(lambda: health(port, "/ready") is not None, "both to be ready again")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


@pytest.mark.slow
def test_it_waits_for_a_server_that_is_away_and_a_signal_ends_it_meanwhile(shop):
    with shop.working(url=f"postgresql://nobody@127.0.0.1:{free_port()}/none") as process:
        wait_until(lambda: shop.log.count("retry in") >= 3, "several attempts to connect")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


@pytest.mark.slow
def test_a_server_that_crashes_and_comes_back_is_worked_on_within_seconds(tmp_path, servers_folder):
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o755)
    # A crash of the server loses nothing that the operating system has in its cache.
    server = EmbeddedServer(folder / "crashing", options={"fsync": "off"})
    server.start()
    shop, port, count = Shop(tmp_path, server.url()), free_port(), 150
    try:
        with psycopg.connect(server.url()) as connection:
            schema.install(connection)
            WorkQueue(connection).create("quick")
            WorkQueue(connection).send_batch(
                "quick", [{"n": n, "takes_s": 0.05} for n in range(count)]
            )
        with shop.working(
            "--queues",
            "quick",
            "--processes",
            "2",
            "--health-port",
            str(port),
            "--concurrency",
            "2",
        ) as process:
            wait_until(lambda: len(pids(shop.notes)) == 2, "both processes to work")
            server.stop("immediate")
            wait_until(lambda: health(port, "/live") is not None, "the worker to be live")
            wait_until(lambda: health(port, "/ready") is None, "the worker not to be ready")
            before = len(shop.notes)
            server.start()
            back_s = time.time()
            wait_until(lambda: len(shop.notes) > before, "the first delivery")
            first_s = float(shop.notes[before].split()[3]) - back_s
            wait_until(
                lambda: {int(line.split()[1]) for line in shop.notes} == set(range(count)),
                "all to be handled",
                60,
            )
            wait_until(lambda: listeners(port) == {"listening"}, "both listeners to be back")

            assert first_s < 3
            assert process.poll() is None
            assert len(pids(shop.notes)) == 2
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0
        with psycopg.connect(server.url()) as connection:
            assert value(connection, "select count(*) from pgmq.q_quick") == 0
            assert value(connection, "select count(*) from sluice.dead_letter") == 0
    finally:
        server.stop("immediate")


def pids(notes):
    return {line.split()[2] for line in notes if line.startswith("quick")}


def listeners(port):
    report = health(port) or {"processes": {}}
    return {status.get("listener") for status in report["processes"].values()}


@pytest.mark.slow
def test_logs_hold_no_payload_and_no_password_and_the_exit_code_tells_of_dead_letters(
    database_18, shop
):
    password, payload = "pass-sentinel-word", "payload-sentinel"
    url = make_conninfo(shop.url, password=password)
    with database_18.connect() as connection:
        WorkQueue(connection).send_batch(
            "quick", [{"n": 1, "bad": payload}, {"n": 2, "forward": payload}, [payload], payload]
        )
        done = shop.run(
            "run", "shop:app", "--until-empty", "--log-format", "json", "--log-level", "debug",
            url=url, code=1,
        )  # fmt: skip

        dead = value(connection, "select count(*) from sluice.dead_letter")
    assert dead == 3
    assert password not in done.stdout + done.stderr
    assert payload not in done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert any(
        line["message"] == "message dead-lettered" and line["queue"] == "quick" for line in lines
    )
    assert [line for line in lines if line.get("done") == 2 and line.get("dead") == 3]


@pytest.mark.slow
def test_failed_start_is_one_line_and_an_exit_code(server_18, database_18, shop):
    role = "worker_without_rights"
    with database_18.connect() as connection:
        connection.execute(f"drop role if exists {role}; create role {role} login")
        connection.execute(f"grant usage on schema sluice, pgmq to {role}")
        connection.execute(f"grant select on sluice.migration to {role}")
    try:
        for url, expected in [
            (server_18.url("template1"), "pgsluice schema install"),
            (
                make_conninfo(shop.url, user=role),
                f"role {role} may not execute .*grant it sluice_reader",
            ),
            (
                make_conninfo(shop.url, options="-c default_transaction_read_only=on"),
                "are read-only; set default_transaction_read_only",
            ),
        ]:
            done = shop.run("run", "shop:app", "--no-maintenance", url=url, code=3)
            (line,) = [line for line in done.stderr.splitlines() if " CRITICAL " in line]
            assert re.search(expected, line)
    finally:
        with database_18.connect() as connection:
            connection.execute(f"drop owned by {role}; drop role {role}")


@pytest.mark.slow
def test_messages_sent_by_handlers_use_the_dsn_of_the_command_also_in_a_process(database_18, shop):
    (shop.folder / "elsewhere.py").write_text(
        "from pgsluice import App\n"
        "app = App('postgresql://nobody@127.0.0.1:1/nowhere')\n"
        "@app.handler('slow_sync', execution='process')\n"
        "def forward(payload: dict) -> None:\n"
        "    quick.send(payload)\n"
        "@app.handler('quick')\n"
        "def quick(payload: dict) -> None: pass\n"
    )
    with database_18.connect() as connection:
        WorkQueue(connection).send("slow_sync", {"n": 7})
        shop.run(
            "run", "elsewhere:app", "--queues", "slow_sync", "--until-empty", "--idle-timeout", "0", "--no-maintenance"
        )  # fmt: skip

        assert rows(connection, "select message from pgmq.q_quick") == [({"n": 7},)]


def test_missing_queues_are_created_only_with_the_option(database_18, shop):
    with database_18.connect() as connection:
        connection.execute("drop view claimed")
        WorkQueue(connection).drop_queue("quick")

        refused = shop.run("run", "shop:app", "--until-empty", "--queues", "quick", code=3)
        assert "queue quick does not exist" in refused.stderr
        shop.run("run", "shop:app", "--until-empty", "--queues", "quick", "--create-queues")

        assert "quick" in {each.queue_name for each in WorkQueue(connection).list_queues()}


def test_check_prints_handlers_and_problems(database_18, shop):
    records = json.loads(shop.run("check", "shop:app", "--json").stdout)
    assert {"what": "handler quick", "found": "queue quick", "is_wrong": False} in records
    assert not any(record["is_wrong"] for record in records)

    with database_18.connect() as connection:
        connection.execute("drop view claimed")
        WorkQueue(connection).drop_queue("quick")
    output = shop.run("check", "shop:app", "--queues", "quick", code=1).stdout
    assert "pgsluice queue create quick" in output

    output = shop.run("check", "nowhere:app", code=3).stderr
    assert output.startswith("pgsluice: no module named 'nowhere' in ")
