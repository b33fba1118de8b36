"""The kombu transport: Celery's first steps with a real worker, killed workers, claims, delays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import support.processes
from support import rows, value, wait_until

pytest.importorskip("celery", reason="Celery is not installed; pip install 'pgsluice[celery]'")

from celery import Celery, chord
from kombu import Connection, Exchange, Queue

from pgsluice.errors import ArgumentError, ConnectionFailedError, QueueNotFoundError

TRANSPORT = "pgsluice.contrib.kombu:Transport"

# Celery's tutorial "First steps with Celery", with results, as in the guide.
FIRST_STEPS = """
from tasks import add
result = add.delay(4, 4)
print(result.get(timeout=20), result.ready(), result.state)
"""

# Tasks with late acknowledgement; each records its start, waits for the gate, and records its end.
GATED = """
import pathlib, time
from celery import Celery

app = Celery("gated", broker="postgresql://")
app.conf.update(
    broker_transport="pgsluice.contrib.kombu:Transport",
    broker_transport_options={"visibility_timeout": 3},
    task_acks_late=True,
    task_reject_on_worker_lost=True,
)

@app.task
def work(number):
    pathlib.Path(f"started-{number}").touch()
    while not pathlib.Path("gate").exists():
        time.sleep(0.02)
    with open("done", "a") as done:
        done.write(f"{number}\\n")
"""


@contextmanager
def worker(folder: Path, url: str, module: str) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "celery", "-A", module, "worker", "--loglevel=INFO"]
    command.append("--concurrency=2")
    with support.processes.running(command, folder, PGSLUICE_DSN=url) as process:
        yield process


@contextmanager
def connected(database, **options: object) -> Iterator[Connection]:
    with Connection(database.url, transport=TRANSPORT, transport_options=options) as connection:
        yield connection


@pytest.fixture
def observer(database_18):
    with database_18.connect() as connection:
        yield connection


@pytest.mark.slow
def test_the_first_steps_with_celery_run(database_18, observer, tmp_path):
    support.processes.write_example("taskiq-and-celery", "tasks.py", tmp_path)
    (tmp_path / "first_steps.py").write_text(FIRST_STEPS)
    url = f"{database_18.url}&password=hunter2"  # must not appear in a log

    with worker(tmp_path, url, "tasks"):
        output = support.processes.run(
            [sys.executable, "first_steps.py"], tmp_path, PGSLUICE_DSN=url
        )

    assert output == "8 True SUCCESS\n"
    assert "hunter2" not in (tmp_path / "log").read_text()
    # The client dropped its result queue when it disconnected.
    assert rows(observer, "select queue_name from pgmq.list_queues()") == [("celery",)]
    assert value(observer, "select count(*) from pgmq.q_celery") == 0


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_no_task(database_18, tmp_path):
    (tmp_path / "gated.py").write_text(GATED)
    send = "import gated\nfor number in range(12): gated.work.delay(number)"
    support.processes.run([sys.executable, "-c", send], tmp_path, PGSLUICE_DSN=database_18.url)
    done = tmp_path / "done"

    with worker(tmp_path, database_18.url, "gated") as process:
        wait_until(lambda: len(list(tmp_path.glob("started-*"))) == 2, "two tasks to start")
        support.processes.kill(process)
    assert not done.exists()
    (tmp_path / "gate").touch()
    with worker(tmp_path, database_18.url, "gated"):
        wait_until(
            lambda: done.exists() and len(set(done.read_text().split())) == 12, "all tasks to end"
        )


@pytest.mark.slow
def test_the_queue_keeps_a_task_until_its_time(database_18, observer, tmp_path):
    support.processes.write_example("taskiq-and-celery", "tasks.py", tmp_path)
    send = "from tasks import add\nadd.apply_async((1, 2), countdown=300)"

    support.processes.run([sys.executable, "-c", send], tmp_path, PGSLUICE_DSN=database_18.url)

    ((wait_s,),) = rows(
        observer, "select extract(epoch from vt - enqueued_at)::float8 from pgmq.q_celery"
    )
    assert 295 < wait_s <= 301


@pytest.mark.slow
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


@pytest.mark.slow
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
        wait_until(
            lambda: all(each.is_reliable for each in subscriptions), "the listener to be reliable"
        )
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

            assert "another consumer read the message" in caplog.text
            assert value(observer, "select count(*) from pgmq.q_work") == 1
            assert other.payload == "hello"
            assert other.delivery_info["redelivered"]
            other.ack()
    assert value(observer, "select count(*) from pgmq.q_work") == 0


def test_rejected_message_is_dead_lettered_and_requeued_one_is_redelivered(database_18, observer):
    with connected(database_18) as connection:
        queue = connection.SimpleQueue("work")
        queue.put("first")
        queue.get(timeout=5).requeue()
        queue.get(timeout=5).reject()

    assert rows(observer, "select queue_name, reason from sluice.dead_letter") == [
        ("work", "rejected")
    ]


def send_again(observer, queue_name):
    """Drop a queue, create it again, and let another reader claim a message of the same number and read_ct."""
    observer.execute("select pgmq.drop_queue(%s), pgmq.create(%s)", [queue_name, queue_name])
    observer.execute("select pgmq.send(%s, '\"new\"')", [queue_name])
    claimed = rows(observer, "select msg_id, read_ct, vt from pgmq.read(%s, 600, 1)", queue_name)
    assert claimed[0][:2] == (1, 1)
    return claimed


def test_a_message_of_a_dropped_queue_does_not_settle_one_of_its_successor(database_18, observer):
    settled = "select msg_id, read_ct, vt from pgmq.q_work"
    for settle in ("ack", "requeue", "reject", None):
        with connected(database_18) as connection:
            queue = connection.SimpleQueue("work")
            queue.put("old")
            message = queue.get(timeout=5)
            successor = send_again(observer, "work")
            connection.transport.session._extend_claims()
            if settle is not None:
                getattr(message, settle)()
        assert rows(observer, settled) == successor, settle
        observer.execute("select pgmq.drop_queue('work')")
    assert rows(observer, "select * from sluice.dead_letter") == []


def test_unacknowledged_messages_are_released_when_the_connection_closes(database_18, observer):
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
        assert body.startswith('{"float"'), "the body is readable JSON"


def test_a_task_whose_shown_arguments_hold_a_nul_or_a_surrogate_is_sent(database_18, observer):
    app = Celery("tests", broker=database_18.url, set_as_current=False)
    app.conf.broker_transport = TRANSPORT
    app.send_task("show", ["a\x00b", "c\ud800"], {"d": "\x00"}, shadow="show\x00", queue="work")

    headers = value(observer, "select message -> 'headers' from pgmq.q_work")

    assert headers["argsrepr"] == r"['a\x00b', 'c\ud800']"
    assert (headers["kwargsrepr"], headers["shadow"]) == (r"{'d': '\x00'}", r"show\x00")


def test_a_body_of_text_with_a_nul_comes_as_it_was_sent(database_18):
    with connected(database_18) as connection:
        queue = connection.SimpleQueue("work")
        queue.put("a\x00b", serializer="raw", content_type="text/plain", content_encoding="utf-8")

        assert queue.get(timeout=5).payload == "a\x00b"


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


@pytest.mark.parametrize("text", ["[1]", "[" * 3000 + "]" * 3000], ids=["list", "deep"])
def test_message_not_sent_by_kombu_is_dead_lettered(database_18, observer, text):
    with connected(database_18) as connection:
        queue = connection.SimpleQueue("work")
        observer.execute("select pgmq.send('work', %s::jsonb)", [text])
        queue.put("good")

        assert queue.get(timeout=5).payload == "good"

    assert value(observer, "select count(*) from sluice.dead_letter") == 1


def test_reply_without_a_reader_is_dropped_and_a_task_is_kept(database_18):
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


def test_exchanges_of_one_process_deliver_to_queues_that_another_has_bound(database_18, observer):
    exchanges = {kind: Exchange(f"by {kind}", type=kind) for kind in ("direct", "topic", "fanout")}
    queues = [
        Queue("direct", exchanges["direct"], routing_key="key"),
        Queue("topic", exchanges["topic"], routing_key="orders.#"),
        Queue("fanout one", exchanges["fanout"]),
        Queue("fanout two", exchanges["fanout"]),
    ]
    with connected(database_18) as binder, connected(database_18) as sender:
        for queue in queues:
            queue(binder.default_channel).declare()
        for kind, exchange in exchanges.items():
            for key in ("key", "orders", "orders.sent.late", "other"):
                sender.Producer().publish(kind, exchange=exchange, routing_key=key)

        def lengths():
            return [queue(binder.default_channel).queue_declare().message_count for queue in queues]

        assert lengths() == [1, 2, 4, 4]
        for queue in queues:
            bound = queue(sender.default_channel)
            bound.exchange.declare()
            bound.unbind_from(bound.exchange, bound.routing_key)
        sender.Producer().publish("more", exchange=exchanges["fanout"])
        assert lengths() == [1, 2, 4, 4]
    assert value(observer, "select count(*) from pgmq.list_topic_bindings()") == 0


def test_an_exchange_of_another_type_is_refused(database_18):
    with (
        connected(database_18) as connection,
        pytest.raises(ArgumentError, match="headers.*use direct, topic, fanout"),
    ):
        Exchange("events", type="headers")(connection.default_channel).declare()


def test_a_queue_name_that_is_too_long_is_shortened(database_18, observer):
    names = [f"{'q' * 60}{number}" for number in (1, 2)]
    with connected(database_18) as connection:
        for name in names:
            connection.SimpleQueue(name).put(name)

        assert [connection.SimpleQueue(name).get(timeout=5).payload for name in names] == names
    stored = rows(observer, "select queue_name from pgmq.list_queues() order by 1")
    assert all(len(name) == 47 and name.startswith("qqq") for (name,) in stored)
    assert len(set(stored)) == 2


def test_option_without_effect_is_logged_once(database_18, caplog):
    with connected(database_18) as connection:
        queue = Queue("work", max_priority=9, message_ttl=60)
        for _ in range(2):
            connection.Producer().publish(
                "hello", routing_key="work", exchange="", priority=9, declare=[queue]
            )

    assert caplog.messages == [
        'unsupported option queue=work reason="queue arguments ignored: max_priority, message_ttl"',
        'unsupported option queue=work reason="priorities ignored; use a separate queue for urgent messages"',
    ]


def test_a_consumer_claims_no_more_than_its_prefetch_count(database_18, observer):
    received = []
    with connected(database_18) as connection:
        for number in range(10):
            connection.SimpleQueue("work").put(number)
        channel = connection.default_channel
        channel.basic_qos(0, 3, False)
        with connection.Consumer([Queue("work")], callbacks=[lambda _, m: received.append(m)]):
            connection.drain_events(timeout=5)
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.1)

            assert len(received) == 3
            assert value(observer, "select count(*) from pgmq.q_work where vt > now()") == 3
            received[0].ack()
            connection.drain_events(timeout=5)
            assert len(received) == 4


def test_a_purge_deletes_delayed_and_claimed_messages_too(database_18, observer):
    with connected(database_18) as connection:
        queue = connection.SimpleQueue("work")
        for number in range(3):
            queue.put(number)
        claimed = queue.get(timeout=5)
        observer.execute("select pgmq.set_vt('work', 2, 600)")

        assert queue.clear() == 3

        claimed.ack()
    assert value(observer, "select count(*) from pgmq.q_work") == 0


@pytest.mark.slow
def test_a_message_of_many_megabytes_comes_as_it_was_sent(database_18):
    sent = "ž" * 5_000_000
    with connected(database_18) as connection:
        queue = connection.SimpleQueue("work")
        queue.put(sent)

        assert queue.get(timeout=20).payload == sent


def test_a_temporary_queue_that_nothing_reads_is_dropped_by_the_next_message(database_18, observer):
    exchange = Exchange("all", type="fanout", durable=False)
    names = ("durable", "temporary", "killed")
    with connected(database_18) as connection, connected(database_18) as sender:
        for name in names:
            is_temporary = name != "durable"
            queue = Queue(name, exchange, durable=not is_temporary, auto_delete=is_temporary)
            queue(connection.default_channel).declare()
        sender.Producer().publish("first", exchange=exchange)
        for name in ("durable", "killed"):
            observer.execute(f"update pgmq.q_{name} set enqueued_at = now() - interval '301 s'")

        with connected(database_18) as other:
            other.Producer().publish("second", exchange=exchange)

        left = {name for (name,) in rows(observer, "select queue_name from pgmq.list_queues()")}
        assert left == {"durable", "temporary"}
        assert value(observer, "select count(*) from pgmq.q_temporary") == 2


def test_a_process_of_the_same_name_gets_nothing_that_was_broadcast_before(database_18):
    exchange = Exchange("all", type="fanout", durable=False)
    queue = Queue("node", exchange, durable=False, auto_delete=True)
    with connected(database_18) as killed, connected(database_18) as restarted:
        queue(killed.default_channel).declare()
        killed.Producer().publish("before", exchange=exchange)
        queue(restarted.default_channel).declare()
        killed.Producer().publish("after", exchange=exchange)

        received = queue(restarted.default_channel).get(no_ack=True)

        assert received.payload == "after"
        assert queue(restarted.default_channel).get(no_ack=True) is None


def test_an_acknowledgement_on_a_closed_channel_names_what_becomes_of_the_message(database_18):
    with connected(database_18) as connection:
        channel = connection.channel()
        queue = connection.SimpleQueue("work", channel=channel)
        queue.put("hello")
        message = queue.get(timeout=5)
        channel.close()

        with pytest.raises(ConnectionFailedError, match="unacknowledged messages are redelivered"):
            message.ack()


def test_a_chord_with_results_by_rpc_is_refused(database_18):
    app = Celery("tests", broker=database_18.url, backend="rpc://", set_as_current=False)
    app.conf.broker_transport = TRANSPORT

    @app.task(name="add", shared=False)
    def add(): ...

    with pytest.raises(NotImplementedError, match="rpc.*chord"):
        chord([add.s()], add.s())()
    app.close()
