"""The transport of kombu: Celery's first steps with a real worker, what a killed worker leaves, claims, delays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import support_processes
from support import rows, value, wait_until

pytest.importorskip("celery", reason="Celery is not installed; pip install 'pgsluice[celery]'")

from kombu import Connection, Exchange, Queue

from pgsluice.errors import ArgumentError, QueueNotFoundError

TRANSPORT = "pgsluice.interop.kombu:Transport"

# Celery's tutorial, "First steps with Celery", with results, as the guide has it.
FIRST_STEPS = """
from tasks import add
result = add.delay(4, 4)
print(result.get(timeout=20), result.ready(), result.state)
"""

# Acknowledged late: each task says that it runs, and waits for the gate; then it says that it is done.
GATED = """
import pathlib, time
from celery import Celery

app = Celery("gated", broker="postgresql://")
app.conf.update(
    broker_transport="pgsluice.interop.kombu:Transport",
    broker_transport_options={"visibility_timeout": 3},
    task_acks_late=True,
    task_reject_on_worker_lost=True,
)

@app.task
def work(number):
    pathlib.Path(f"began-{number}").touch()
    while not pathlib.Path("gate").exists():
        time.sleep(0.02)
    with open("done", "a") as done:
        done.write(f"{number}\\n")
"""


@contextmanager
def worker(folder: Path, url: str, module: str) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "celery", "-A", module, "worker", "--loglevel=INFO"]
    command.append("--concurrency=2")
    with support_processes.running(command, folder, PGSLUICE_DSN=url) as process:
        yield process


@contextmanager
def connected(database, **options: object) -> Iterator[Connection]:
    with Connection(database.url, transport=TRANSPORT, transport_options=options) as connection:
        yield connection


@pytest.fixture
def observer(database_18):
    with database_18.connect() as connection:
        yield connection


def test_the_first_steps_with_celery_run(database_18, observer, tmp_path):
    support_processes.write_example("taskiq-and-celery", "tasks.py", tmp_path)
    (tmp_path / "first_steps.py").write_text(FIRST_STEPS)
    url = f"{database_18.url}&password=hunter2"  # is it in a log?

    with worker(tmp_path, url, "tasks"):
        said = support_processes.run([sys.executable, "first_steps.py"], tmp_path, PGSLUICE_DSN=url)

    assert said == "8 True SUCCESS\n"
    assert "hunter2" not in (tmp_path / "log").read_text()
    # The queue of the results was the client's and is gone with it.
    assert rows(observer, "select queue_name from pgmq.list_queues()") == [("celery",)]
    assert value(observer, "select count(*) from pgmq.q_celery") == 0


def test_a_worker_that_is_killed_loses_no_task(database_18, tmp_path):
    (tmp_path / "gated.py").write_text(GATED)
    send = "import gated\nfor number in range(12): gated.work.delay(number)"
    support_processes.run([sys.executable, "-c", send], tmp_path, PGSLUICE_DSN=database_18.url)
    done = tmp_path / "done"

    with worker(tmp_path, database_18.url, "gated") as process:
        wait_until(lambda: len(list(tmp_path.glob("began-*"))) == 2, "two to begin")
        support_processes.kill(process)
    assert not done.exists()
    (tmp_path / "gate").touch()
    with worker(tmp_path, database_18.url, "gated"):
        wait_until(
            lambda: done.exists() and len(set(done.read_text().split())) == 12, "all to be done"
        )


def test_the_queue_keeps_a_task_until_its_time(database_18, observer, tmp_path):
    support_processes.write_example("taskiq-and-celery", "tasks.py", tmp_path)
    send = "from tasks import add\nadd.apply_async((1, 2), countdown=300)"

    support_processes.run([sys.executable, "-c", send], tmp_path, PGSLUICE_DSN=database_18.url)

    ((wait_s,),) = rows(
        observer, "select extract(epoch from vt - enqueued_at)::float8 from pgmq.q_celery"
    )
    assert 295 < wait_s <= 301


def test_a_claim_is_extended_while_it_is_unacknowledged(database_18, observer):
    with connected(database_18, visibility_timeout=3) as connection:
        queue = connection.SimpleQueue("work")
        queue.put({"number": 1})
        message = queue.get(timeout=5)
        (claimed_until,) = rows(observer, "select vt from pgmq.q_work")
        query = "select vt > %s from pgmq.q_work"
        wait_until(lambda: value(observer, query, *claimed_until), "a heartbeat")

        message.ack()

        assert value(observer, "select count(*) from pgmq.q_work") == 0
        assert not connection.transport.session._claims


def test_a_consumer_is_woken_by_what_is_sent(database_18, notifier):
    queues = [Queue("first"), Queue("second")]
    received = []

    def on_message(body, message):
        received.append(body)
        message.ack()

    with (
        connected(database_18, polling_interval=600) as connection,
        connected(database_18) as sender,
        connection.Consumer(queues, callbacks=[on_message]),
    ):
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.1)
        subscriptions = connection.transport.session._subscriptions.values()
        wait_until(lambda: all(each.is_reliable for each in subscriptions), "the listener")
        for number, queue in enumerate(queues):
            sender.Producer().publish(number, routing_key=queue.name, exchange="")

            connection.drain_events(timeout=20)

    assert received == [0, 1]


def test_an_acknowledgement_that_comes_too_late_changes_nothing(database_18, observer, caplog):
    with connected(database_18) as connection:
        queue = connection.SimpleQueue("work")
        queue.put("hello")
        message = queue.get(timeout=5)
        observer.execute("select pgmq.set_vt('work', 1, 0)")
        with connected(database_18) as other_connection:
            other = other_connection.SimpleQueue("work").get(timeout=5)

            message.ack()

            assert "claimed by another consumer" in caplog.text
            assert value(observer, "select count(*) from pgmq.q_work") == 1
            assert other.payload == "hello"
            assert other.delivery_info["redelivered"]
            other.ack()
    assert value(observer, "select count(*) from pgmq.q_work") == 0


def test_a_rejected_message_is_dead_and_a_requeued_one_comes_again(database_18, observer):
    with connected(database_18) as connection:
        queue = connection.SimpleQueue("work")
        queue.put("first")
        queue.get(timeout=5).requeue()
        queue.get(timeout=5).reject()

    assert rows(observer, "select queue_name, reason from sluice.dead_letter") == [
        ("work", "rejected")
    ]


def test_what_is_not_acknowledged_is_given_back_when_the_connection_is_closed(
    database_18, observer
):
    with connected(database_18, visibility_timeout=600) as connection:
        queue = connection.SimpleQueue("work")
        queue.put("first")
        queue.get(timeout=5)
        assert not value(observer, "select vt <= now() from pgmq.q_work")

    assert value(observer, "select vt <= now() from pgmq.q_work")


def test_a_message_comes_as_it_was_sent(database_18, observer):
    at = datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(microseconds=1)
    with connected(database_18) as connection:
        queue = connection.SimpleQueue("work")
        sent = {"float": 1e22, "text": "a\x00b žluť", "none": None}
        queue.put(sent, headers={"at": at})
        queue.put(b"\x80\x04", serializer=None, content_type="application/data")
        text = queue.get(timeout=5)
        binary = queue.get(timeout=5)

        assert text.payload == sent
        assert text.headers["at"] == at
        assert bytes(binary.body) == b"\x80\x04"
        (body,) = rows(observer, "select message ->> 'body' from pgmq.q_work where msg_id = 1")[0]
        assert body.startswith('{"float"'), "people can read it"


def test_a_topic_exchange_delivers_to_each_queue_that_wants_it(database_18):
    exchange = Exchange("events", type="topic")
    queues = [
        Queue("all_orders", exchange, routing_key="orders.#"),
        Queue("paid", exchange, routing_key="*.paid"),
    ]
    received = []
    with connected(database_18) as connection:
        producer = connection.Producer()
        producer.publish({"id": 1}, exchange=exchange, routing_key="orders.paid", declare=queues)
        producer.publish({"id": 2}, exchange=exchange, routing_key="orders.sent", declare=queues)

        def on_message(body, message):
            received.append((message.delivery_info["routing_key"], body["id"]))
            message.ack()

        with connection.Consumer(queues, callbacks=[on_message]):
            for _ in range(3):
                connection.drain_events(timeout=5)
                if len(received) == 3:
                    break
    assert sorted(received) == [("orders.paid", 1), ("orders.paid", 1), ("orders.sent", 2)]


def test_what_kombu_did_not_send_goes_to_the_dead_letters(database_18, observer):
    with connected(database_18) as connection:
        queue = connection.SimpleQueue("work")
        observer.execute("select pgmq.send('work', '[1]')")
        queue.put("good")

        assert queue.get(timeout=5).payload == "good"

    assert value(observer, "select count(*) from sluice.dead_letter") == 1


def test_a_reply_that_nobody_waits_for_is_dropped_and_a_task_is_not(database_18):
    with connected(database_18) as connection:
        producer = connection.Producer()
        producer.publish("reply", exchange="", routing_key="gone", delivery_mode="transient")

        with pytest.raises(QueueNotFoundError):
            producer.publish("task", exchange="", routing_key="gone")


def test_a_visibility_timeout_too_short_for_heartbeats_is_refused(database_18):
    with (
        pytest.raises(ArgumentError, match="visibility_timeout"),
        connected(database_18, visibility_timeout=2) as connection,
    ):
        connection.connect()
