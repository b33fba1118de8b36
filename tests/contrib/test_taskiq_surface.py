"""Taskiq features: acknowledgement, labels, retries, requeueing, schedules, shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

import support.processes
from support import rows, value, wait_until

pytest.importorskip("taskiq", reason="Taskiq is not installed; pip install 'pgsluice[taskiq]'")

from taskiq import AcknowledgeType, AsyncResultBackend, Context, SmartRetryMiddleware, TaskiqDepends
from taskiq.exceptions import SendTaskError
from taskiq.receiver import Receiver

from pgsluice.contrib.taskiq import PgsluiceBroker
from pgsluice.errors import ConnectionFailedError

# A task for a worker process: it records its start, waits for the gate file, and records its end.
GATED = """
import asyncio, pathlib
from taskiq import TaskiqScheduler
from taskiq.schedule_sources import LabelScheduleSource
from pgsluice.contrib.taskiq import PgsluiceBroker

broker = PgsluiceBroker(lease_s=60)
scheduler = TaskiqScheduler(broker, [LabelScheduleSource(broker)])

@broker.task(task_name="work")
async def work(number: int) -> None:
    with open("started", "a") as started:
        started.write(f"{number}\\n")
    while not pathlib.Path("gate").exists():
        await asyncio.sleep(0.02)
    with open("done", "a") as done:
        done.write(f"{number}\\n")

@broker.task(task_name="tick", schedule=[{"interval": 1}])
async def tick() -> None: ...
"""
CONTEXT = TaskiqDepends()
LENGTH = "select count(*) from pgmq.q_taskiq"


class Results(AsyncResultBackend):
    """In-memory results, each with the queue length at the time it was saved."""

    def __init__(self, observer):
        self.observer = observer
        self.results = {}
        self.lengths = {}

    async def set_result(self, task_id, result):
        self.results[task_id] = result
        self.lengths[task_id] = value(self.observer, LENGTH)

    async def is_result_ready(self, task_id):
        return task_id in self.results

    async def get_result(self, task_id, with_logs=False):
        return self.results[task_id]


@pytest.fixture
def observer(database_18):
    with database_18.connect() as connection:
        yield connection


@pytest.fixture
async def broker(database_18, observer) -> AsyncIterator[PgsluiceBroker]:
    broker = PgsluiceBroker(database_18.url, lease_s=3, poll_interval_s=0.1)
    broker.result_backend = Results(observer)
    broker.is_worker_process = True
    await broker.startup()
    yield broker
    await broker.shutdown()


async def run(broker: PgsluiceBroker, qty: int, ack_type: AcknowledgeType | None = None) -> None:
    """Run the tasks of the next messages as a Taskiq worker does."""
    receiver = Receiver(broker, max_async_tasks=1, ack_type=ack_type)
    messages = broker.listen()
    for _ in range(qty):
        async with asyncio.timeout(20):
            await receiver.callback(await anext(messages))
    await messages.aclose()


@pytest.mark.parametrize(
    ("ack_type", "lengths"),
    [("when_received", (0, 0)), ("when_executed", (1, 0)), ("when_saved", (1, 1))],
)
async def test_a_task_is_acknowledged_when_its_ack_type_says(broker, observer, ack_type, lengths):
    seen = []

    @broker.task(task_name="work")
    async def work() -> None:
        seen.append(value(observer, LENGTH))

    task = await work.kiq()

    await run(broker, 1, AcknowledgeType(ack_type))

    assert (*seen, broker.result_backend.lengths[task.task_id]) == lengths
    assert value(observer, LENGTH) == 0


async def test_a_task_acknowledges_itself_with_the_ack_type_manual(broker, observer):
    seen = []

    @broker.task(task_name="work", ack_type="manual")
    async def work(context: Context = CONTEXT) -> None:
        seen.append(value(observer, LENGTH))
        await context.ack()
        seen.append(value(observer, LENGTH))

    await work.kiq()

    await run(broker, 1)

    assert seen == [1, 0]


async def test_labels_arguments_and_results_arrive(broker):
    @broker.task(task_name="work", color="red")
    async def work(at: datetime, context: Context = CONTEXT) -> list[object]:
        return [at, context.message.labels["color"], context.message.labels["size"]]

    at = datetime(2026, 3, 1, tzinfo=UTC)
    task = await work.kicker().with_labels(size=7).kiq(at)

    await run(broker, 1)

    assert (await task.wait_result()).return_value == [at, "red", 7]


async def test_a_retry_middleware_sends_a_failed_task_again(broker, observer):
    broker.add_middlewares(SmartRetryMiddleware(default_retry_count=3, default_delay=0))
    runs = []

    @broker.task(task_name="work", retry_on_error=True)
    async def work() -> str:
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("again")
        return "done"

    task = await work.kiq()

    await run(broker, 3)

    assert (await task.get_result()).return_value == "done"
    assert value(observer, LENGTH) == 0


async def test_the_queue_keeps_the_delay_of_a_retry(broker, observer):
    broker.add_middlewares(SmartRetryMiddleware(default_retry_count=3, default_delay=300))

    @broker.task(task_name="work", retry_on_error=True)
    async def work() -> None:
        raise ValueError("again")

    await work.kiq()

    await run(broker, 1)

    query = "select extract(epoch from vt - enqueued_at)::float8 from pgmq.q_taskiq"
    assert 299 < value(observer, query) <= 302


async def test_a_task_that_fails_or_times_out_without_retries_is_acknowledged(broker, observer):
    @broker.task(task_name="fail")
    async def fail() -> None:
        raise ValueError("no")

    @broker.task(task_name="hang", timeout=0.05)
    async def hang() -> None:
        await asyncio.sleep(60)

    tasks = [await fail.kiq(), await hang.kiq()]

    await run(broker, 2)

    errors = [(await task.get_result()).error for task in tasks]
    assert [type(error) for error in errors] == [ValueError, TimeoutError]
    assert value(observer, LENGTH) == 0


async def test_a_requeued_task_runs_again(broker, observer):
    runs = []

    @broker.task(task_name="work")
    async def work(context: Context = CONTEXT) -> None:
        runs.append(context.message.task_id)
        if len(runs) == 1:
            await context.requeue()

    await work.kiq()

    await run(broker, 2)

    assert len(runs) == 2
    assert len(set(runs)) == 1
    assert value(observer, LENGTH) == 0


async def test_a_task_that_no_worker_knows_is_acknowledged_by_taskiq(broker, observer, caplog):
    @broker.task(task_name="work")
    async def work() -> None: ...

    await work.kiq()
    broker.local_task_registry.clear()

    await run(broker, 1)

    assert value(observer, LENGTH) == 0
    assert any('task "work" is not found' in message for message in caplog.messages)


async def test_broker_logs_a_lost_connection_and_reconnects(broker, observer):
    done = []

    @broker.task(task_name="work")
    async def work(number: int) -> None:
        done.append(number)

    await work.kiq(1)
    await run(broker, 1)
    observer.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )

    with pytest.raises(SendTaskError) as raised:
        await work.kiq(2)
    assert isinstance(raised.value.__cause__, ConnectionFailedError)
    for _ in range(4):  # one attempt for each connection of the pool
        with contextlib.suppress(SendTaskError):
            await work.kiq(3)
            break
    await run(broker, 1)

    assert done == [1, 3]


@pytest.mark.slow
async def test_messages_dropped_by_taskiq_are_released_at_shutdown(database_18, observer):
    broker = PgsluiceBroker(database_18.url, lease_s=600)
    broker.is_worker_process = True
    await broker.startup()

    @broker.task(task_name="work")
    async def work() -> None: ...

    await work.kiq()
    messages = broker.listen()
    dropped = await anext(messages)
    assert not value(observer, "select vt <= now() from pgmq.q_taskiq")

    del dropped
    await messages.aclose()
    gc.collect()
    await broker.shutdown()

    assert value(observer, "select vt <= now() from pgmq.q_taskiq")


def worker(database, folder, *options):
    (folder / "gated.py").write_text(GATED)
    command = [sys.executable, "-m", "taskiq", "worker", "gated:broker", *options]
    return support.processes.running(command, folder, PGSLUICE_DSN=database.url)


async def send(database, qty: int) -> None:
    sender = PgsluiceBroker(database.url)
    await sender.startup()

    @sender.task(task_name="work")
    async def work(number: int) -> None: ...

    for number in range(qty):
        await work.kiq(number)
    await sender.shutdown()


def lines_of(path):
    return path.read_text().split() if path.exists() else []


@pytest.mark.long
async def test_workers_share_tasks(database_18, tmp_path):
    (tmp_path / "gate").touch()
    await send(database_18, 100)

    with worker(database_18, tmp_path, "--workers=2"):
        wait_until(lambda: len(lines_of(tmp_path / "done")) == 100, "all tasks to end", 120)

    assert set(Counter(lines_of(tmp_path / "done")).values()) == {1}


@pytest.mark.long
async def test_a_worker_that_is_stopped_gives_back_what_it_has_not_done(
    database_18, observer, tmp_path
):
    await send(database_18, 6)
    options = ["--workers=1", "--max-async-tasks=2", "--wait-tasks-timeout=0.5"]
    with worker(database_18, tmp_path, *options) as process:
        wait_until(lambda: len(lines_of(tmp_path / "started")) == 2, "two tasks to start", 120)

        process.send_signal(signal.SIGTERM)
        process.wait(90)

    assert not lines_of(tmp_path / "done")
    assert rows(observer, "select count(*), bool_and(vt <= now()) from pgmq.q_taskiq") == [
        (6, True)
    ]


@pytest.mark.long
async def test_a_scheduler_sends_what_is_due(database_18, observer, tmp_path):
    await send(database_18, 0)
    (tmp_path / "gated.py").write_text(GATED)
    command = [sys.executable, "-m", "taskiq", "scheduler", "gated:scheduler"]
    with support.processes.running(command, tmp_path, PGSLUICE_DSN=database_18.url):
        query = "select count(*) from pgmq.q_taskiq where message ->> 'task_name' = 'tick'"
        wait_until(lambda: value(observer, query) >= 2, "two messages to be sent", 120)
