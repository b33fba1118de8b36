"""Workers on several databases: turns, one concurrency, and a database that is down."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import urllib.request

import pytest

from pgsluice.errors import ArgumentError, ConfigurationError, NotInstalledError, ShardError
from pgsluice.shards import Shards
from pgsluice.worker import App
from pgsluice.worker.app.sharded import ShardedWorker
from pgsluice.worker.engine.flow.fair_share import FairShare
from pgsluice.worker.engine.flow.options import WorkerOptions
from support import wait_until
from support.crash import server_to_crash
from support.processes import environment, running
from support.shards import Fleet, fleet_of

AWAY = "postgresql://127.0.0.1:1/nowhere?connect_timeout=2"


@pytest.fixture
def fleet(make_database_18) -> Fleet:
    fleet = fleet_of(make_database_18)
    fleet.create_queue()
    return fleet


def sent(fleet: Fleet, **counts: int) -> None:
    """Send messages with their shard as payload, each with a key of its own."""
    for name, count in counts.items():
        fleet.on(
            name,
            "select pgmq.send_batch('jobs', array_agg(to_jsonb(%s::text))) from generate_series(1, %s)",
            name,
            count,
        )


class Gauge:
    """Records calls, and how many run at the same time."""

    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds
        self.seen: list[str] = []
        self.now = self.most = 0

    async def __call__(self, payload: str) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.seen.append(payload)
        await asyncio.sleep(self.seconds)
        self.now -= 1


def app_with(gauge: Gauge, fleet: Fleet, **options) -> App:
    app = App(shards=fleet.shards)

    @app.handler("jobs", **options)
    async def jobs(payload: str) -> None:
        await gauge(payload)

    return app


# Turns ---------------------------------------------------------------------------------------------------------------


class Lane:
    """A database in the share of a handler, with messages that wait."""

    def __init__(self, turns: FairShare, name: str, waiting: int, started: list[str], slots=9):
        self.name, self.waiting, self.started = name, waiting, started
        self.calls = self.hung = self.rooms = 0
        self.share = turns.share_of("handler", 1, slots)
        self.share.join(self)

    @property
    def held(self) -> int:
        return self.waiting + self.calls

    def wants(self) -> bool:
        return self.waiting > 0

    def grant(self) -> None:
        self.waiting, self.calls = self.waiting - 1, self.calls + 1
        self.started.append(self.name)

    def make_room(self) -> None:
        self.rooms += 1


@pytest.mark.parametrize("slots", [4, None])
def test_databases_with_messages_take_turns(slots):
    turns, started = FairShare(slots), []
    for name, waiting in (("a", 9), ("b", 1), ("c", 9)):
        Lane(turns, name, waiting, started, slots=4)
    turns.deal()
    assert started == ["a", "b", "c", "a"]


def test_limit_of_a_handler_is_one_for_all_databases():
    turns, started = FairShare(None), []
    a, b = (Lane(turns, name, 9, started, slots=3) for name in "ab")
    turns.deal()
    assert started == ["a", "b", "a"]
    a.calls -= 1
    turns.deal()
    assert started == ["a", "b", "a", "b"]
    assert (a.calls, b.calls) == (1, 2)


def test_handlers_share_slots_by_weight_whatever_the_number_of_databases():
    turns, started = FairShare(1), []
    for name in ("a", "b", "c"):
        Lane(turns, name, 9, started)
    other = []
    share = turns.share_of("other", 1, 9)

    class Other(Lane):
        def __init__(self):
            self.waiting, self.calls, self.hung, self.name, self.started = 9, 0, 0, "o", other

    share.join(Other())
    for _ in range(6):
        turns.deal()
        turns.release()
    assert (len(started), len(other)) == (3, 3)


def test_database_may_claim_what_the_others_leave_and_its_part_in_any_case():
    turns, started = FairShare(None), []
    a, b = (Lane(turns, name, waiting, started) for name, waiting in (("a", 10), ("b", 0)))
    assert (a.share.room(a, 10), b.share.room(b, 10)) == (0, 5)
    a.waiting = 3
    assert (a.share.room(a, 10), b.share.room(b, 10)) == (7, 7)
    a.share.leave(a)
    assert b.share.room(b, 10) == 10
    b.share.changed()
    assert (a.rooms, b.rooms) == (0, 1)


# Workers -------------------------------------------------------------------------------------------------------------


async def test_messages_of_all_databases_are_handled_within_one_concurrency(fleet):
    sent(fleet, a=30, b=30)
    gauge = Gauge()
    worker = ShardedWorker(app_with(gauge, fleet, concurrency=4), fleet.shards)
    counts = await worker.run_until_empty(idle_s=0.2)
    assert counts["jobs"].done == 60
    assert gauge.most == 4
    assert 8 <= gauge.seen[10:30].count("a") <= 12
    assert fleet.messages() == {"a": [], "b": []}


async def test_concurrency_of_the_process_is_one_for_all_databases(fleet):
    sent(fleet, a=20, b=20)
    gauge = Gauge()
    options = WorkerOptions(concurrency=3)
    worker = ShardedWorker(app_with(gauge, fleet), fleet.shards, options=options)
    counts = await worker.run_until_empty(idle_s=0.2)
    assert (counts["jobs"].done, gauge.most) == (40, 3)


async def test_database_without_messages_leaves_its_slots_to_the_others(fleet):
    sent(fleet, a=12)
    gauge = Gauge(0.1)
    worker = ShardedWorker(app_with(gauge, fleet, concurrency=4), fleet.shards)
    await worker.run_until_empty(idle_s=0.2)
    assert (len(gauge.seen), gauge.most) == (12, 4)


async def test_message_that_a_handler_sends_to_another_database_is_handled_before_the_end(fleet):
    app = App(shards=fleet.shards)
    seen = []

    @app.handler("jobs")
    async def jobs(hops: int) -> None:
        seen.append(hops)
        await asyncio.sleep(0.1)
        if hops:
            await jobs.send_async(hops - 1, key=fleet.key("ab"[hops % 2]))

    await jobs.send_async(5, key=fleet.key("a"))
    await ShardedWorker(app, fleet.shards).run_until_empty(idle_s=0.0)
    await app.aclose()
    assert seen == [5, 4, 3, 2, 1, 0]
    assert fleet.messages() == {"a": [], "b": []}


async def test_result_of_a_handler_is_awaited_at_the_shard_of_the_key(fleet):
    app = App(shards=fleet.shards)

    @app.handler("jobs", keep_result=60)
    async def jobs(number: int) -> int:
        return number * 7

    worker = ShardedWorker(app, fleet.shards)
    running_worker = asyncio.create_task(worker.run())
    try:
        for name in "ab":
            msg_id = await jobs.send_async(6, key=fleet.key(name))
            assert await jobs.result_async(msg_id, timeout_s=20, key=fleet.key(name)) == 42
    finally:
        worker.stop()
        await running_worker
        await app.aclose()
        app.close()


async def test_message_is_handled_in_the_transaction_of_its_own_database(fleet):
    sent(fleet, a=1, b=1)
    app = App(shards=fleet.shards)
    for name in fleet.urls:
        fleet.on(name, "create table public.effect (payload text)")

    @app.handler("jobs", mode="transaction")
    async def jobs(payload: str, context) -> None:
        async with context.transaction() as connection:
            await connection.execute("insert into public.effect values (%s)", (payload,))

    await ShardedWorker(app, fleet.shards).run_until_empty(idle_s=0.2)
    assert {name: fleet.on(name, "table public.effect") for name in fleet.urls} == {
        "a": [("a",)],
        "b": [("b",)],
    }


async def test_schedule_is_fired_by_the_database_of_its_key_or_name_only(fleet):
    app = App(name="shop", shards=fleet.shards)

    @app.handler("jobs")
    async def jobs(payload: str) -> None: ...

    for name in "ab":
        app.schedule(f"of {name}", handler=jobs, payload="x", key=fleet.key(name), every_s=60)
    app.schedule("nightly", handler=jobs, payload="x", cron="0 0 * * *")
    await ShardedWorker(app, fleet.shards).run_until_empty(idle_s=0.0)
    stored = {
        name: {schedule for (schedule,) in fleet.on(name, "select name from sluice.schedule")}
        for name in fleet.urls
    }
    home = fleet.directory.home("nightly")
    expected = {name: {f"of {name}"} for name in "ab"}
    expected[home].add("nightly")
    assert stored == expected


async def test_database_that_is_down_is_named_and_the_others_work(fleet):
    sent(fleet, a=3)
    gauge = Gauge()
    shards = Shards.of({**fleet.urls, "b": AWAY})
    worker = ShardedWorker(app_with(gauge, fleet), shards)
    counts = await worker.run_until_empty(idle_s=0.1)
    assert counts["jobs"].done == 3
    a, b = worker.status().shards
    assert (a.name, a.error) == ("a", None)
    assert (b.name, b.is_up) == ("b", False)
    assert "ConnectionFailedError" in b.error


async def test_stop_does_not_wait_for_a_database_that_is_down(fleet):
    worker = ShardedWorker(app_with(Gauge(), fleet), Shards.of({"a": AWAY, "b": AWAY}))
    running_worker = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    worker.stop()
    async with asyncio.timeout(1.5):
        await running_worker
    assert worker.status().state == "stopped"


async def test_permanent_error_of_one_database_stops_only_itself(fleet, empty_database):
    sent(fleet, a=2)
    gauge = Gauge()
    worker = ShardedWorker(
        app_with(gauge, fleet), Shards.of({**fleet.urls, "b": empty_database.url})
    )
    counts = await worker.run_until_empty(idle_s=0.1)
    assert counts["jobs"].done == 2
    assert "NotInstalledError" in worker.status().shards[1].error


async def test_worker_ends_when_no_database_can_be_used(empty_database):
    app = App()

    @app.handler("jobs")
    async def jobs(payload: str) -> None: ...

    with pytest.raises(NotInstalledError):
        await ShardedWorker(app, Shards.of({"a": empty_database.url})).run()


async def test_swapped_addresses_are_refused(fleet):
    a, b = fleet.urls.values()
    with pytest.raises(ShardError, match="is the shard '[ab]'; correct its address"):
        await ShardedWorker(app_with(Gauge(), fleet), Shards.of({"a": b, "b": a})).run()


async def test_database_without_a_directory_is_worked_on_and_named(make_database_18, caplog):
    fleet = Fleet({"a": make_database_18().url})
    fleet.create_queue()
    sent(fleet, a=1)
    gauge = Gauge()
    await ShardedWorker(app_with(gauge, fleet), fleet.shards).run_until_empty(idle_s=0.0)
    assert gauge.seen == ["a"]
    assert "database has no directory of shards shard=a" in caplog.text


def test_connections_are_divided_among_the_databases(fleet):
    app = app_with(Gauge(), fleet)
    with pytest.raises(
        ArgumentError, match="max_connections is divided among 2 shards: max_connections is 1"
    ):
        ShardedWorker(app, fleet.shards, options=WorkerOptions(max_connections=3))


def test_shard_without_an_address_is_refused_before_anything_starts(fleet, tmp_path, monkeypatch):
    monkeypatch.delenv("NO_SUCH_DSN", raising=False)
    path = tmp_path / "shards.toml"
    path.write_text('[shards]\na = { dsn_env = "NO_SUCH_DSN" }\n')
    with pytest.raises(ConfigurationError, match="NO_SUCH_DSN"):
        ShardedWorker(app_with(Gauge(), fleet), Shards.load(path))


async def test_status_joins_the_databases(fleet):
    sent(fleet, a=2, b=3)
    worker = ShardedWorker(app_with(Gauge(), fleet), fleet.shards)
    assert worker.status().state == "starting"
    await worker.run_until_empty(idle_s=0.1)
    status = worker.status()
    assert status.state == "stopped"
    assert [source.name for source in status.sources] == [
        "queue jobs of shard a",
        "queue jobs of shard b",
    ]
    (handler,) = status.handlers
    assert (handler.counts.done, sum(handler.call_counts)) == (5, 5)


async def test_lifespan_runs_handlers_of_all_databases(fleet):
    sent(fleet, a=1, b=1)
    gauge = Gauge()
    app = app_with(gauge, fleet)
    async with app.lifespan(maintenance=False) as state:
        await asyncio.to_thread(wait_until, lambda: len(gauge.seen) == 2, "both messages")
        assert [shard.is_up for shard in state["worker"].status().shards] == [True, True]


# The command ---------------------------------------------------------------------------------------------------------

SHOP = """
import os
from pathlib import Path
from pgsluice import App
app = App()

def note(text):
    with (Path(os.environ["SHOP"]) / "notes").open("a") as file:
        file.write(text + "\\n")

@app.handler("jobs", concurrency=2)
async def jobs(payload: str) -> None:
    note(payload)

@app.handler("forward", execution="process")
def forward(key: str) -> None:
    jobs.send("forwarded", key=key)
"""
RUN = [sys.executable, "-m", "pgsluice", "worker", "run", "shop:app", "--no-maintenance"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "notes").touch()
    return tmp_path


def run_command(folder, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*RUN, *options],
        cwd=folder,
        env=environment(folder, SHOP=str(folder)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_command_works_on_all_databases_and_its_handlers_send_by_key(fleet, folder):
    sent(fleet, a=1, b=1)
    path = fleet.file(folder)
    for name in fleet.urls:
        fleet.on(name, "select pgmq.create('forward')")
    fleet.on("a", "select pgmq.send('forward', to_jsonb(%s::text))", fleet.key("b"))
    done = run_command(folder, "--shards", str(path), "--until-empty")
    assert done.returncode == 0, done.stderr
    assert sorted((folder / "notes").read_text().split()) == ["a", "b", "forwarded"]
    assert fleet.messages() == {"a": [], "b": []}


def test_command_exits_with_1_if_a_database_is_down_when_the_others_are_empty(fleet, folder):
    sent(fleet, a=1)
    fleet.on("a", "select pgmq.create('forward')")
    path = Fleet({**fleet.urls, "b": AWAY}).file(folder)
    done = run_command(folder, "--shards", str(path), "--until-empty")
    assert done.returncode == 1, done.stderr
    assert (folder / "notes").read_text().split() == ["a"]
    assert "shard b: " in done.stderr


def test_command_exits_with_3_if_no_database_can_be_used_until_it_is_changed(fleet, folder):
    path = Fleet({**fleet.urls, "b": AWAY}).file(folder)  # a lacks the queue forward
    done = run_command(folder, "--shards", str(path), "--until-empty")
    assert done.returncode == 3, done.stderr
    assert "queue forward does not exist" in done.stderr


def test_command_refuses_an_invalid_file(fleet, folder):
    (folder / "shards.toml").write_text("[shards]\n")
    done = run_command(folder, "--shards", str(folder / "shards.toml"))
    assert done.returncode == 3
    assert "names no shards" in done.stderr


def page(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.slow
def test_server_that_is_killed_stops_only_itself_and_is_used_again_when_it_returns(
    fleet, folder, servers_folder, unused_tcp_port
):
    port = unused_tcp_port
    with server_to_crash(servers_folder) as server:
        fleet = Fleet({"a": fleet.urls["a"], "c": server.url()})
        fleet.on("a", "delete from sluice.shard")
        fleet.apply()
        fleet.on("c", "select pgmq.create('jobs')")
        for name in fleet.urls:
            fleet.on(name, "select pgmq.create('forward')")

        def notes() -> list[str]:
            return (folder / "notes").read_text().split()

        def shards() -> dict[str, bool]:
            with contextlib.suppress(OSError):
                status = json.loads(page(port, "/ready")[1])["processes"].get("1", {})
                return {one["name"]: one["is_up"] for one in status.get("shards", ())}
            return {}

        command = [*RUN, "--shards", str(fleet.file(folder)), "--health-port", str(port)]
        with running(command, folder, SHOP=str(folder)):
            wait_until(lambda: shards() == {"a": True, "c": True}, "both databases to be up")
            sent(fleet, a=1, c=1)
            wait_until(lambda: sorted(notes()) == ["a", "c"], "the first messages")
            # A message that is not settled at a crash is handled again after it.
            wait_until(lambda: fleet.messages()["c"] == [], "its settlement")

            server.stop("immediate")
            wait_until(lambda: shards() == {"a": True, "c": False}, "the database to be down")
            assert page(port, "/ready")[0] == 200
            metrics = page(port, "/metrics")[1]
            assert 'pgsluice_worker_shard_up{process="1",shard="c"} 0.0' in metrics
            assert 'pgsluice_worker_shard_up{process="1",shard="a"} 1.0' in metrics
            sent(fleet, a=1)
            wait_until(lambda: sorted(notes()) == ["a", "a", "c"], "a message of the other")

            server.start()
            sent(fleet, c=1)
            wait_until(
                lambda: sorted(notes()) == ["a", "a", "c", "c"], "a message after the return"
            )
            wait_until(lambda: shards() == {"a": True, "c": True}, "both to be up again")
