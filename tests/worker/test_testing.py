"""Helpers to test users' handlers: single messages, drained queues, and a database per test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgsluice import Schedules
from pgsluice.errors import ArgumentError, PayloadError
from pgsluice.testing import (
    advance_time,
    drain,
    drain_async,
    run_batch,
    run_handler,
    run_handler_async,
)
from pgsluice.testing.databases import Databases
from pgsluice.worker import (
    App,
    Batch,
    Context,
    Done,
    Reject,
    Release,
    Retry,
    SyncContext,
)
from pgsluice.worker.engine.delivery import Settlement
from support import rows, value, wait_until

ROOT = Path(__file__).parents[2]


@dataclass
class Order:
    id: int


app = App()


@app.handler("mail", give_up_on=[LookupError], timeout_s=0.2)
async def mail(order: Order, context: Context) -> Any:
    if order.id == 1:
        return None
    if order.id == 2:
        return Release(5)
    if order.id == 3:
        raise Retry(7, "busy")
    if order.id == 4:
        raise KeyError("who")
    if order.id == 5:
        raise ValueError("what")
    if order.id == 6:
        await context.heartbeat()
    return await asyncio.Event().wait()


@app.handler("seen")
def seen(order: Order, context: SyncContext) -> Any:
    details = (context.attempt, context.message_id, context.headers, context.key, context.handler)
    raise Reject(repr(details))


@app.handler("clicks", batch=Batch(size=10))
def load(orders: list[Order]) -> list[Any]:
    return [Reject("odd") if order.id % 2 else None for order in orders]


@app.handler("sums", execution="process")
def sums(numbers: list[int]) -> None:
    os._exit(9 if sum(numbers) == 9 else 0)


@app.handler("stock")
def stock(order: Order, context: SyncContext) -> None:
    with context.transaction() as connection:
        connection.execute("insert into effect values ('stock', %s, null)", [order.id])


@app.handler("ledger")
async def ledger(order: Order, context: Context) -> None:
    async with context.transaction() as connection:
        await connection.execute("insert into effect values ('ledger', %s, null)", [order.id])


@app.handler("audits", batch=Batch(size=10))
async def audit(orders: list[Order], contexts: list[Context]) -> None:
    async with contexts[0].transaction():
        pass


@pytest.mark.parametrize(
    ("number", "outcome", "error_type"),
    [
        (1, Done(), None),
        (2, Release(5), None),
        (3, Retry(7, "busy"), "Retry"),
        (4, Reject("gave up on KeyError"), "KeyError"),
        (5, Retry(), "ValueError"),
        (7, Retry(), "timeout"),
    ],
)
def test_a_handler_is_run_and_what_it_returns_or_raises_is_the_outcome(number, outcome, error_type):
    result = run_handler(mail, Order(number))

    assert result.outcome == outcome
    assert (result.failure and result.failure.error_type) == error_type


def test_the_context_is_what_the_test_says():
    result = run_handler(seen, Order(1), attempt=3, headers={"h": 1}, key="k", message_id=7)

    assert result.outcome == Reject("(3, 7, {'h': 1}, 'k', 'seen')")


def test_a_payload_goes_the_way_of_a_message():
    with pytest.raises(PayloadError, match="payload.id is of type str; it must be int"):
        run_handler(seen, Order("x"))

    result = run_handler(seen, {"id": "x"}, stored=True)

    assert result.outcome == Reject("payload")
    assert result.failure.message == "payload.id is of type str; it must be int"


def test_a_batch_has_an_outcome_for_each_message():
    results = run_batch(load, [Order(1), Order(2)])

    assert [result.outcome for result in results] == [Reject("odd"), Done()]


@pytest.mark.slow
def test_a_process_that_dies_is_a_failure_and_the_test_lives():
    result = run_handler(sums, [4, 5])

    assert (result.outcome, result.failure.error_type) == (Retry(), "process died")


def test_middleware_is_called_too():
    other, received = App(), []

    @other.handler("q")
    def double(number: int) -> None:
        received.append(number)

    @other.middleware
    async def note(call, payload, context):
        return await call(payload * 2, context)

    assert run_handler(double, 21) == Settlement(Done())
    assert received == [42]


def test_a_lost_claim_is_found_out():
    result = run_handler(mail, Order(6), lost=True)

    assert result.is_lost


def test_a_transaction_is_that_of_the_tests_connection(worker_url, observer):
    with psycopg.connect(worker_url) as connection:
        connection.execute("select 1")
        assert run_handler(stock, Order(1), connection=connection).outcome == Done()
        assert rows(connection, "select msg_id from effect where queue_name = 'stock'") == [(1,)]
        connection.rollback()

    assert value(observer, "select count(*) from effect where queue_name = 'stock'") == 0


def test_handler_whose_transaction_needs_another_connection_is_refused(worker_url):
    needs = "an `async def` handler with context.transaction() needs an AsyncConnection, got {}; pass an "
    with psycopg.connect(worker_url) as connection:
        with pytest.raises(ArgumentError) as caught:
            run_handler(ledger, Order(1), connection=connection)
        assert str(caught.value).startswith(needs.format("a psycopg Connection"))
        with pytest.raises(
            ArgumentError, match="AsyncConnection to run_batch_async with connection="
        ):
            run_batch(audit, [Order(1)], connection=connection)
    with pytest.raises(ArgumentError, match="got no connection; pass a Connection to run_handler "):
        run_handler(stock, Order(1))


async def test_in_an_event_loop_the_same_is_awaited(worker_url):
    with pytest.raises(ArgumentError, match=r"await run_handler_async\(\)"):
        run_handler(mail, Order(1))
    with pytest.raises(ArgumentError, match=r"await drain_async\(\)"):
        drain(app)
    async with await psycopg.AsyncConnection.connect(worker_url) as connection:
        settlement = await run_handler_async(ledger, Order(2), connection=connection)
        assert settlement == Settlement(Done(), result="done")
        await connection.rollback()


def test_batch_handler_is_refused_for_one_message():
    with pytest.raises(ArgumentError, match="is not a handler; decorate it"):
        run_handler(print, 1)
    with pytest.raises(ArgumentError, match="'load' is a batch handler; use run_batch"):
        run_handler(load, Order(1))
    with pytest.raises(ArgumentError, match="'mail' is not a batch handler; use run_handler"):
        run_batch(mail, [Order(1)])


@pytest.fixture
def shop(worker_url, observer):
    """An app with a handler that sends to another one, and a handler of a log."""
    shop = App(worker_url)

    @shop.handler("drain_orders")
    def accept(order: Order, context: SyncContext) -> None:
        with context.transaction() as connection:
            if context.once(f"order {order.id}"):
                ship.send(order, connection=connection)

    @shop.handler("drain_parcels")
    async def ship(order: Order, context: Context) -> None:
        if order.id == 2:
            raise Reject("no such address")

    @shop.handler(log="drain_events", group="mailers", event_types=["paid"])
    def paid(order: Order) -> None: ...

    shop.create_queues(observer)
    shop.create_queues(observer)  # existing queues are not changed
    observer.execute("truncate pgmq.q_drain_orders, pgmq.q_drain_parcels, sluice.inbox")
    yield shop, accept, paid
    shop.close()


def test_queues_and_logs_are_drained_also_of_what_handlers_send(shop, observer):
    shop, accept, _ = shop
    accept.send_many([Order(1), Order(2), Order(3), Order(1)])  # order 1 twice by mistake

    counts = drain(shop, queues=["drain_orders", "drain_parcels"])

    assert (counts["accept"].done, counts["ship"].done, counts["ship"].dead) == (4, 2, 1)
    assert value(observer, "select count(*) from pgmq.q_drain_parcels") == 0


def test_drain_does_not_warn_that_no_maintenance_runs(shop, caplog):
    shop, accept, _ = shop
    accept.send(Order(1))

    drain(shop, queues=["drain_orders", "drain_parcels"], idle_s=1.0)

    assert "pgsluice maintain" not in caplog.text


def test_an_app_is_drained_elsewhere_and_its_handlers_send_there(shop, worker_url, observer):
    shop, accept, _ = shop
    accept.send(Order(1))
    shop.dsn = "host=/nowhere"

    counts = drain(shop, queues=["drain_orders", "drain_parcels"], dsn=worker_url)

    assert (counts["accept"].done, counts["ship"].done) == (1, 1)
    assert shop.dsn == "host=/nowhere"


def test_drain_stores_declared_schedules_which_advance_time_fires(worker_url, observer):
    shop = App(worker_url, name="drain_schedules")

    @shop.handler("drain_reports")
    def report(order: Order) -> None: ...

    shop.create_queues(observer)
    name = "drain report"
    shop.schedule(name, handler=report, payload=Order(7), every_s=86400)
    try:
        assert drain(shop)["report"].done == 0
        with psycopg.connect(worker_url, autocommit=True) as connection:
            fired = advance_time(connection, timedelta(days=1))
        assert [slot.name for slot in fired if slot.name == name] == [name]
        assert drain(shop)["report"].done == 1
        stored = "select paused_at is not null from sluice.schedule where name = %s"
        assert value(observer, stored, name) is False
        shop.schedules.clear()
        drain(shop)  # a worker of this version pauses it
        assert value(observer, stored, name) is True
    finally:
        Schedules(observer).unschedule(name)
        shop.close()


async def test_a_log_is_ticked_while_it_is_drained(shop):
    shop, _, paid = shop
    first = await drain_async(shop, handlers=["paid"])  # creates the group
    await paid.send_many_async([Order(1), Order(2)])

    counts = await drain_async(shop, handlers=["paid"])
    await shop.aclose()

    assert (first["paid"].done, counts["paid"].done) == (0, 2)


async def test_a_worker_runs_beside_a_program_in_its_event_loop(shop):
    shop, accept, _ = shop
    async with shop.lifespan(queues=["drain_orders"], maintenance=False) as state:
        await accept.send_async(Order(1))
        status = state["worker"].status
        await asyncio.to_thread(
            wait_until,
            lambda: sum(each.counts.done for each in status().handlers) == 1,
            "the message",
        )
    await shop.aclose()


USED = """
from pgsluice import App, WorkQueue
from pgsluice.testing import drain

app = App()
done = []

@app.handler("orders")
def handle(number: int) -> None:
    done.append(number)

def test_one(pgsluice_database):
    with pgsluice_database.connect() as connection:
        app.create_queues(connection)
    handle.send(1)
    assert drain(app)["handle"].done == 1
    assert done == [1]

def test_another_has_another_database(pgsluice_database):
    with pgsluice_database.connect() as connection:
        assert WorkQueue(connection).list_queues() == []
        app.create_queues(connection)
    handle.send(2)
    assert drain(app)["handle"].done == 1
    assert done == [1, 2]

def test_without_it_nothing_is_set():
    import os
    assert "PGSLUICE_DSN" not in os.environ
"""


def start_pytest(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    environ = {
        key: text for key, text in os.environ.items() if not key.startswith(("PGSLUICE", "PYTEST"))
    }
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "pgsluice_pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**environ, **variables, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


def run_pytest(folder: Path, *arguments: str, **variables: str) -> str:
    with start_pytest(folder, *arguments, **variables) as process:
        output, _ = process.communicate()
    return output


@pytest.mark.slow
def test_the_fixture_gives_each_test_a_database_of_its_own(tmp_path):
    (tmp_path / "test_used.py").write_text(USED)

    ran = run_pytest(tmp_path, "-W", "error")

    assert "3 passed" in ran, ran


ROLLED_BACK = """
import asyncio
import psycopg
import pytest
from pgsluice import App
from pgsluice.testing import assert_sent, assert_sent_async, sent

pytestmark = pytest.mark.filterwarnings("error")
app = App()

@app.handler("orders")
def handle(number: int) -> None: ...

@pytest.mark.parametrize("number", [1, 2])
def test_each_has_a_transaction(pgsluice_connection, number):
    app.create_queues(pgsluice_connection)
    handle.send(number, connection=pgsluice_connection)
    with pgsluice_connection.transaction():
        handle.send(number, connection=pgsluice_connection)
    assert [each.payload for each in sent(handle, connection=pgsluice_connection)] == [number] * 2
    with pytest.raises(psycopg.ProgrammingError, match="Explicit commit"):
        pgsluice_connection.commit()

@pytest.mark.asyncio
@pytest.mark.parametrize("number", [1, 2])
async def test_each_has_one_in_an_event_loop(pgsluice_async_connection, number):
    await pgsluice_async_connection.execute("select pgmq.create('orders')")
    await handle.send_async(number, connection=pgsluice_async_connection)
    await assert_sent_async(handle, payload=number, count=1, connection=pgsluice_async_connection)

def test_nothing_is_left(pgsluice_shared_database):
    with pgsluice_shared_database.connect() as connection:
        assert connection.execute("select count(*) from pgmq.list_queues()").fetchone() == (0,)
"""


@pytest.mark.slow
def test_the_fixtures_with_a_transaction_roll_it_back_after_each_test(tmp_path):
    (tmp_path / "test_rolled_back.py").write_text(ROLLED_BACK)

    ran = run_pytest(
        tmp_path,
        "-W",
        "error",
        "-p",
        "pytest_asyncio.plugin",
        "-o",
        "asyncio_mode=strict",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    )

    assert "5 passed" in ran, ran


@pytest.mark.slow
def test_the_server_starts_from_the_data_of_an_earlier_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    Databases(18).close()
    monkeypatch.setattr("pgsluice.testing.databases.schema", None)  # cannot install

    with contextlib.closing(Databases(18)) as databases:
        names = [databases.make() for _ in range(2)]
        for name in names:
            with psycopg.connect(databases.url(name)) as connection:
                assert rows(connection, "select count(*) from pgmq.list_queues()") == [(0,)]
        databases.drop(names[0])

    assert len(set(names)) == 2
    [cached] = (tmp_path / "pgsluice" / "pytest").iterdir()
    assert cached.name.startswith("18-")


@pytest.mark.slow
def test_the_server_starts_without_a_folder_for_its_cache(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    with contextlib.closing(Databases(18)) as databases:
        assert databases.make() == "test_1"


@pytest.mark.slow
def test_a_run_without_the_fixture_imports_nothing(tmp_path):
    (tmp_path / "test_unused.py").write_text(
        "import sys\ndef test(): assert not {'pgsluice', 'psycopg', 'pydantic'} & sys.modules.keys()\n"
    )

    ran = run_pytest(tmp_path)

    assert "1 passed" in ran, ran


def left_over(folder: Path) -> list[str]:
    """Return the servers' files in a temporary folder, and the processes that use it."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            processes.append(path.read_text().replace("\0", " "))
    return [
        *(path.name for path in folder.glob("pgsluice-pytest-*")),
        *(each for each in processes if str(folder) in each),
    ]


@pytest.fixture
def temporary_folder():
    """A folder that the server's user may enter; its path is short, as sockets need."""
    with tempfile.TemporaryDirectory(prefix="xd-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


SHARED_OUT = """
import pathlib, time
import pytest
from pgsluice import App, WorkQueue
from pgsluice.testing import drain

HERE = pathlib.Path(__file__).parent

@pytest.mark.parametrize("number", range(12))
def test_each_has_a_database_of_its_own(pgsluice_database, number):
    app, done = App(), []

    @app.handler("orders")
    def handle(n: int) -> None:
        done.append(n)

    with pgsluice_database.connect() as connection:
        assert WorkQueue(connection).list_queues() == []
        app.create_queues(connection)
    (HERE / f"began-{number}").touch()
    while (HERE / "gate").exists():
        time.sleep(0.01)
    handle.send_many([number] * 3)
    assert drain(app)["handle"].done == 3
    assert done == [number] * 3
"""


@pytest.mark.long
def test_under_xdist_each_test_has_a_database_of_its_own_and_nothing_is_left(
    tmp_path, temporary_folder
):
    (tmp_path / "test_shared_out.py").write_text(SHARED_OUT)

    ran = run_pytest(tmp_path, "-n", "3", "-W", "error", TMPDIR=str(temporary_folder))

    assert "12 passed" in ran, ran
    wait_until(lambda: left_over(temporary_folder) == [], "the servers to end", 10)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_under_xdist_a_run_that_is_cut_off_leaves_nothing(tmp_path, temporary_folder, number):
    (tmp_path / "test_shared_out.py").write_text(SHARED_OUT)
    (tmp_path / "gate").touch()

    with start_pytest(tmp_path, "-n", "2", TMPDIR=str(temporary_folder)) as process:
        try:
            wait_until(lambda: len(list(tmp_path.glob("began-*"))) == 2, "two tests to start", 120)
            assert left_over(temporary_folder)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        os.killpg(process.pid, number)  # as a terminal does
        process.communicate()

    wait_until(lambda: left_over(temporary_folder) == [], "the servers to end", 20)
