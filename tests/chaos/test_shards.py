"""Three servers under load: one is killed and restarted, one is added, and keys move.

Each message has a key and a number; producers send the numbers of a key in order, and a handler stores each in a table of
the database that it came from, in one transaction with the acknowledgement. In the end each number of each key must be
stored once, in order.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from pgsluice import schema
from pgsluice.client import WorkQueue
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import CommitUnknownError, RetryableError
from pgsluice.shards import ShardPool, Shards
from support import wait_until
from support.processes import environment, running
from support.servers import FAST

KEYS = [f"tenant-{n}" for n in range(8)]
# A sender that has sent is told the truth, also after a crash of the server.
OPTIONS = {**FAST, "synchronous_commit": "on", "max_connections": "100"}
APP = """
from pgsluice.worker import App, Context

app = App()


@app.handler("orders", key_concurrency=1, concurrency=8)
def store(payload: dict, context: Context) -> None:
    with context.transaction() as connection:
        connection.execute(
            "insert into done (key, n) values (%s, %s)", (payload["key"], payload["n"])
        )
"""


@dataclass
class Load:
    """Threads that send, each the messages of one key in order.

    Attributes:
        sent: Number of messages of each key that were sent.
        repeated: Sends that failed and were repeated with the same deduplication key.
        unknown: Those whose outcome was unknown.
    """

    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))
    repeated: int = 0
    unknown: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)

    def run(self, work: WorkQueue, key: str) -> None:
        try:
            while not self.stop.is_set():
                self.send(work, key)
                self.stop.wait(0.03)
        except BaseException as error:
            self.failures.append(error)

    def send(self, work: WorkQueue, key: str) -> None:
        n = self.sent[key]
        while True:
            try:
                message = {"key": key, "n": n}
                work.at(key).send("orders", message, deduplication_key=f"{key} {n}")
                break
            except (CommitUnknownError, RetryableError) as error:
                self.unknown += isinstance(error, CommitUnknownError)
                self.repeated += 1
                time.sleep(0.1)
        self.sent[key] = n + 1


class Cluster:
    """Servers that are shards, in a folder."""

    def __init__(self, folder: Path, workplace: Path) -> None:
        self.folder = folder
        self.path = workplace / "shards.toml"
        self.servers: dict[str, EmbeddedServer] = {}
        (workplace / "app.py").write_text(APP)

    def add(self, name: str) -> None:
        """Start a server and name it in the file."""
        server = EmbeddedServer(self.folder / name, version=18, options=OPTIONS)
        server.start()
        self.servers[name] = server
        with psycopg.connect(server.url()) as connection:
            schema.install(connection)
            connection.execute(
                "create table done (id bigint generated always as identity, key text, n integer, "
                "at timestamptz default clock_timestamp())"
            )
        lines = [f'{name} = {{ dsn = "{one.url()}" }}' for name, one in self.servers.items()]
        pins = Shards.load(self.path).directory.pins if self.path.exists() else {}
        lines += ["[pins]", *(f'"{key}" = "{name}"' for key, name in pins.items())]
        self.path.write_text("\n".join(["[shards]", *lines, ""]))

    def kill(self, name: str) -> None:
        """Kill a server as a power failure would."""
        found = self.servers[name].found()
        assert found is not None
        os.kill(found.pid, signal.SIGKILL)
        wait_until(lambda: not self.servers[name].running(), "the end of the server")

    def command(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pgsluice", *arguments, "--shards", str(self.path)],
            cwd=self.path.parent,
            env=environment(self.path.parent),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    def home(self, key: str) -> str:
        return Shards.load(self.path).home(key)

    def rows(self, query: str) -> dict[str, list[tuple]]:
        found = {}
        for name, server in self.servers.items():
            with psycopg.connect(server.url(), autocommit=True) as connection:
                found[name] = connection.execute(query).fetchall()
        return found

    def is_empty(self) -> bool:
        query = "select (select count(*) from pgmq.q_orders) + (select count(*) from sluice.moving_message)"
        return all(rows == [(0,)] for rows in self.rows(query).values())


def violations(cluster: Cluster, load: Load) -> list[str]:
    """Compare what was sent with what was done."""
    done: dict[str, list[tuple]] = {key: [] for key in load.sent}
    for rows in cluster.rows("select key, n, at from done").values():
        for key, n, at in rows:
            done[key].append((at, n))
    found = []
    for key, rows in done.items():
        numbers = [n for _, n in sorted(rows)]
        if lost := set(range(load.sent[key])) - set(numbers):
            found.append(f"{key}: lost {sorted(lost)[:5]}")
        if len(numbers) > len(set(numbers)):
            found.append(
                f"{key}: doubled {sorted({n for n in numbers if numbers.count(n) > 1})[:5]}"
            )
        elif numbers != sorted(numbers):
            late = [n for n, after in itertools.pairwise(numbers) if n > after]
            found.append(f"{key}: out of order at {late[:5]}")
    return found


@pytest.fixture
def cluster(servers_folder, tmp_path):
    folder = servers_folder / f"shards-{os.getpid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    cluster = Cluster(folder, tmp_path)
    yield cluster
    for server in cluster.servers.values():
        server.stop("immediate")


def workers(cluster: Cluster, stack: ExitStack) -> list[subprocess.Popen]:
    command = [
        sys.executable,
        "-m",
        "pgsluice",
        "worker",
        "run",
        "app:app",
        "--shards",
        str(cluster.path),
    ]
    return [stack.enter_context(running(command, cluster.path.parent)) for _ in range(2)]


def all_sent(load: Load, more: int) -> None:
    """Wait until each key has more messages; a sender that had no answer has one then."""
    before = dict(load.sent)
    wait_until(
        lambda: load.failures or all(load.sent[key] >= before[key] + more for key in KEYS),
        f"{more} messages of each key",
        90,
    )
    assert not load.failures, load.failures


def scenario(cluster: Cluster, *, phase: int) -> Load:
    """Run the phases; return what was sent."""
    cluster.add("a")
    cluster.add("b")
    for server in cluster.servers.values():
        with psycopg.connect(server.url(), autocommit=True) as connection:
            work = WorkQueue(connection)
            work.create("orders")
            connection.execute(
                "select sluice.set_queue_options('orders', '{\"deduplication_window\": \"1 hour\"}'::jsonb)"
            )
    cluster.command("shards", "apply")
    load = Load()
    with ExitStack() as stack:
        senders = WorkQueue(stack.enter_context(ShardPool(cluster.path)))
        threads = [threading.Thread(target=load.run, args=(senders, key)) for key in KEYS]
        first = workers(cluster, stack)
        for thread in threads:
            thread.start()
        stack.callback(load.stop.set)
        all_sent(load, phase)

        # A server is killed; keys of the other are sent and handled meanwhile.
        cluster.kill("b")
        before = dict(load.sent)
        alive = [key for key in KEYS if cluster.home(key) == "a"]
        assert 0 < len(alive) < len(KEYS)
        wait_until(lambda: all(load.sent[key] > before[key] + 5 for key in alive), "sends to a", 60)
        assert all(load.sent[key] <= before[key] + 1 for key in KEYS if key not in alive)
        cluster.servers["b"].start()
        all_sent(load, phase)

        # A server is added: 1/n of the keys move to it.
        cluster.add("c")
        second = workers(cluster, stack)
        for process in first:
            process.terminate()
        cluster.command("shards", "apply")
        assert 0 < sum(cluster.home(key) == "c" for key in KEYS) < len(KEYS)
        all_sent(load, phase)

        # Keys move there and back.
        for key in KEYS[:1]:
            origin = cluster.home(key)
            to = next(name for name in cluster.servers if name != origin)
            cluster.command("shards", "move", key, to)
            all_sent(load, 3)
            cluster.command("shards", "move", key, origin)
            all_sent(load, 3)

        load.stop.set()
        for thread in threads:
            thread.join(60)
        wait_until(cluster.is_empty, "all messages", 60)
        assert all(process.poll() is None for process in second)
    return load


def check(cluster: Cluster, *, phase: int) -> None:
    load = scenario(cluster, phase=phase)

    assert violations(cluster, load) == []
    done = cluster.rows("select count(distinct key) from done")
    print(
        f"sent={sum(load.sent.values())} repeated={load.repeated} unknown={load.unknown} keys by shard={done}"
    )
    assert all(rows[0][0] > 0 for rows in done.values())


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_three_servers_lose_and_double_nothing_and_keep_the_order_of_each_key(cluster):
    check(cluster, phase=10)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_three_servers_lose_and_double_nothing_under_a_longer_load(cluster):
    check(cluster, phase=300)


class Done:
    """Contents of the tables of two servers."""

    def __init__(self, *rows: tuple) -> None:
        self.found = {"a": list(rows[::2]), "b": list(rows[1::2])}

    def rows(self, _query: str) -> dict[str, list[tuple]]:
        return self.found


@pytest.mark.parametrize(
    ("numbers", "violation"),
    [
        ([0, 1, 2], None),
        ([0, 2], "lost [1]"),
        ([0, 1, 1, 2], "doubled [1]"),
        ([0, 2, 1], "out of order at [2]"),
    ],
)
def test_check_finds_what_is_lost_doubled_or_out_of_order(numbers, violation):
    load = Load({KEYS[0]: 3})
    done = Done(*((KEYS[0], n, at) for at, n in enumerate(numbers)))
    expected = [] if violation is None else [f"{KEYS[0]}: {violation}"]

    assert violations(done, load) == expected
