"""The Taskiq broker: Taskiq's example with a real worker, killed workers, claims and delays."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import support.processes
from pgsluice import UnloadableJson
from pgsluice.errors import ArgumentError
from support import rows, value, wait_until

pytest.importorskip("taskiq", reason="Taskiq is not installed; pip install 'pgsluice[taskiq]'")

from taskiq import AsyncBroker, BrokerMessage

from pgsluice.contrib.taskiq import PgsluiceBroker

# The example of Taskiq's guide "Getting started": one process sends the task, a worker runs it, and
# the sender waits for the result. A folder replaces the guide's Redis result backend.
EXAMPLE = """
import asyncio, pathlib, pickle
from taskiq import AsyncResultBackend
from pgsluice.contrib.taskiq import PgsluiceBroker

class Folder(AsyncResultBackend):
    async def set_result(self, task_id, result):
        part = pathlib.Path(task_id + ".part")
        part.write_bytes(pickle.dumps(result))
        part.rename(task_id)
    async def is_result_ready(self, task_id):
        return pathlib.Path(task_id).exists()
    async def get_result(self, task_id, with_logs=False):
        return pickle.loads(pathlib.Path(task_id).read_bytes())

broker = PgsluiceBroker().with_result_backend(Folder())

@broker.task
async def add_one(value: int) -> int:
    return value + 1

async def main() -> None:
    await broker.startup()
    task = await add_one.kiq(1)
    result = await task.wait_result(timeout=20)
    if not result.is_err:
        print(f"Returned value: {result.return_value}")
    else:
        print("Error found while executing task.")
    await broker.shutdown()

if __name__ == "__main__":
    asyncio.run(main())
"""

# Each task records its start, waits for the gate file, and records its end.
GATED = """
import asyncio, pathlib
from pgsluice.contrib.taskiq import PgsluiceBroker

broker = PgsluiceBroker(lease_s=3)

@broker.task
async def work(number: int) -> None:
    pathlib.Path(f"started-{number}").touch()
    while not pathlib.Path("gate").exists():
        await asyncio.sleep(0.02)
    with open("done", "a") as done:
        done.write(f"{number}\\n")
"""


@contextmanager
def worker(folder: Path, database, module: str) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "taskiq", "worker", f"{module}:broker", "--workers", "1"]
    with support.processes.running(command, folder, PGSLUICE_DSN=database.url) as process:
        yield process


@pytest.fixture
async def broker(database_18) -> AsyncIterator[PgsluiceBroker]:
    broker = PgsluiceBroker(database_18.url, lease_s=3)
    broker.is_worker_process = True
    await broker.startup()
    yield broker
    await broker.shutdown()


async def kick(broker: AsyncBroker, number: int, data: bytes | None = None, **labels) -> None:
    await broker.kick(
        BrokerMessage(
            task_id=f"id-{number}",
            task_name="work",
            message=data if data is not None else f"{number}".encode(),
            labels=labels,
        )
    )


@pytest.mark.slow
def test_the_example_of_taskiq_runs(database_18, tmp_path):
    (tmp_path / "broker.py").write_text(EXAMPLE)

    with worker(tmp_path, database_18, "broker"):
        output = support.processes.run(
            [sys.executable, "broker.py"], tmp_path, PGSLUICE_DSN=database_18.url
        )

        assert output == "Returned value: 2\n"
        with database_18.connect() as connection:
            wait_until(
                lambda: value(connection, "select count(*) from pgmq.q_taskiq") == 0,
                "the acknowledgement",
            )


def test_the_guide_runs(database_18, tmp_path):
    support.processes.write_example("taskiq-and-celery", "mail_broker.py", tmp_path)

    with worker(tmp_path, database_18, "mail_broker"):
        support.processes.run(
            [sys.executable, "mail_broker.py"], tmp_path, PGSLUICE_DSN=database_18.url
        )

        log = tmp_path / "log"
        wait_until(lambda: "sent the receipt of order 42" in log.read_text(), "the task to run")


@pytest.mark.slow
async def test_a_worker_that_is_killed_loses_no_task(database_18, tmp_path):
    (tmp_path / "gated.py").write_text(GATED)
    done = tmp_path / "done"
    sender = PgsluiceBroker(database_18.url)
    await sender.startup()

    @sender.task("gated:work")
    async def work(number: int) -> None: ...

    for number in range(30):
        await work.kiq(number)
    await sender.shutdown()
    with worker(tmp_path, database_18, "gated") as process:
        wait_until(lambda: len(list(tmp_path.glob("started-*"))) == 30, "all tasks to start")
        support.processes.kill(process)
    assert not done.exists()
    (tmp_path / "gate").touch()
    with worker(tmp_path, database_18, "gated"):
        wait_until(
            lambda: done.exists() and len(set(done.read_text().split())) == 30, "all tasks to end"
        )


@pytest.mark.slow
async def test_a_claim_is_extended_while_taskiq_holds_the_task_and_no_longer(broker, database_18):
    await kick(broker, 1)
    messages = broker.listen()
    message = await anext(messages)

    with database_18.connect() as connection:
        (claimed_until,) = rows(connection, "select vt from pgmq.q_taskiq")
        query = "select vt > %s from pgmq.q_taskiq"
        await until(lambda: value(connection, query, *claimed_until), "a heartbeat")

        # A failing middleware drops a task without an acknowledgement.
        del message

        def is_dropped() -> bool:
            gc.collect()
            return not broker._claims

        await until(is_dropped, "the current heartbeat to end")
    await messages.aclose()


async def test_unacknowledged_messages_are_released_at_shutdown(database_18):
    broker = PgsluiceBroker(database_18.url, lease_s=600)
    broker.is_worker_process = True
    await broker.startup()
    await kick(broker, 1)
    await kick(broker, 2)
    messages = broker.listen()
    first, second = await anext(messages), await anext(messages)
    await first.ack()

    await broker.shutdown()

    with database_18.connect() as connection:
        (left,) = rows(connection, "select message ->> 'task_id', vt <= now() from pgmq.q_taskiq")
    assert left == ("id-2", True)
    assert second.data == b"2"


async def test_a_worker_is_woken_by_what_is_sent(database_18, notifier):
    broker = PgsluiceBroker(database_18.url, poll_interval_s=600)
    broker.is_worker_process = True
    await broker.startup()
    messages = broker.listen()
    message = asyncio.create_task(anext(messages))
    await until(lambda: str(broker._listener.state) == "listening", "the listener to listen")

    await kick(broker, 1)

    assert (await asyncio.wait_for(message, 20)).data == b"1"
    await messages.aclose()
    await broker.shutdown()


async def test_the_queue_keeps_a_delayed_task(broker, database_18):
    await kick(broker, 1, delay="29.5")  # Taskiq converts labels to strings

    query = "select extract(epoch from vt - enqueued_at)::float8 from pgmq.q_taskiq"
    with database_18.connect() as connection:
        assert 30 <= value(connection, query) < 35


@pytest.mark.parametrize("delay", ["soon", "-1", "nan", "inf"])
async def test_invalid_delay_is_refused(broker, delay):
    with pytest.raises(ArgumentError, match="delay"):
        await kick(broker, 1, delay=delay)


async def test_bytes_of_any_serializer_come_back_as_they_were(broker):
    sent = [
        b'{"a": 1e22, "b": "\\u0000"}',
        b"\x80\x04\x95",
        b"\x93\x00",
        b"a\x00",
        "žluťoučký".encode(),
    ]
    for number, data in enumerate(sent):
        await kick(broker, number, data)
    messages = broker.listen()

    received = [await anext(messages) for _ in sent]

    assert [message.data for message in received] == sent
    await messages.aclose()


@pytest.mark.parametrize(
    "message",
    [{"something": "else"}, UnloadableJson("[" * 3000 + "]" * 3000)],
    ids=["dict", "deep"],
)
async def test_message_not_sent_by_taskiq_is_dead_lettered(broker, database_18, message):
    await broker.queue.send("taskiq", message)
    await kick(broker, 1)
    messages = broker.listen()

    assert (await anext(messages)).data == b"1"

    with database_18.connect() as connection:
        assert rows(connection, "select queue_name, reason from sluice.dead_letter") == [
            ("taskiq", "payload")
        ]
    await messages.aclose()


async def test_a_task_that_another_worker_has_by_now_is_not_deleted(broker, database_18, caplog):
    await kick(broker, 1)
    messages = broker.listen()
    message = await anext(messages)
    with database_18.connect() as connection:
        connection.execute("select pgmq.set_vt('taskiq', 1, 0)")
        connection.execute("select pgmq.read('taskiq', 60, 1)")

        await message.ack()

        assert value(connection, "select count(*) from pgmq.q_taskiq") == 1
    assert "another worker read the message" in caplog.text
    await messages.aclose()


async def test_a_task_of_a_dropped_queue_does_not_settle_one_of_its_successor(broker, database_18):
    """Both have the same number; the broker renews and settles its own tasks, of either queue."""
    await kick(broker, 1)
    messages = broker.listen()
    old = await anext(messages)
    claimed = "select msg_id, read_ct, message ->> 'task_id', vt from pgmq.q_taskiq order by 1"
    with database_18.connect() as connection:
        connection.execute("select pgmq.drop_queue('taskiq'), pgmq.create('taskiq')")
        await kick(broker, 2)
        connection.execute("select pgmq.read('taskiq', 600, 1)")
        before = rows(connection, claimed)
        await broker._extend_claims()
        await old.ack()
        assert rows(connection, claimed) == before

        connection.execute("select pgmq.drop_queue('taskiq'), pgmq.create('taskiq')")
        del old
        old, new = await lost_and_new(broker, messages)
        before = rows(connection, claimed)
        await broker._extend_claims()
        assert len(broker._claims) == 1
        ((*same, extended_to),) = rows(connection, claimed)
        assert same == list(before[0][:3])
        assert extended_to > before[0][3]

        await old.ack()
        assert len(rows(connection, claimed)) == 1
        await new.ack()
        assert rows(connection, claimed) == []
    await messages.aclose()


async def lost_and_new(broker, messages):
    """Return a task of a queue that was dropped since, and one of the same number of its successor."""
    await kick(broker, 3)
    old = await anext(messages)
    await broker.queue.drop_queue("taskiq")
    await broker.queue.create("taskiq")
    await kick(broker, 4)
    return old, await anext(messages)


async def until(condition, what: str) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"waited 20 s for {what}")
