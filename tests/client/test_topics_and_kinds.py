"""Methods for topics, unlogged queues and polling, sync and async, on a pool and a connection."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import RoutingMatch, TopicBinding
from pgsluice.errors import (
    ArgumentError,
    PayloadError,
    QueueNameError,
    QueueNotFoundError,
)
from support import rows, wait_until

SOON = timedelta(seconds=30)


@pytest.fixture
def topic(clients, queue_name, observer):
    """Routing key prefix of this test's own, bound to its queue."""
    observer.execute("select pgmq.bind_topic(%s, %s)", [f"{queue_name}.#", queue_name])
    return queue_name


def test_an_unlogged_queue_is_created_once_and_works_as_any_other(clients, queue_name):
    fast = f"{queue_name}_fast"

    assert clients.queue.create_unlogged(fast) is True
    assert clients.queue.create_unlogged(fast) is False
    assert clients.queue.send(fast, "kept") == 1
    kinds = {record.queue_name: record.is_unlogged for record in clients.queue.list_queues()}
    assert (kinds[fast], kinds[queue_name]) == (True, False)
    assert [m.message for m in clients.queue.pop(fast)] == ["kept"]
    assert clients.queue.drop_queue(fast) is True
    with pytest.raises(QueueNameError):
        clients.queue.create_unlogged("")


def test_a_poll_returns_at_once_what_is_visible(clients, queue_name):
    clients.queue.send_batch(queue_name, [{"k": "a"}, {"k": "b"}, {"k": "b"}])

    found = clients.queue.read_with_poll(queue_name, 60, max_poll_seconds=600)
    assert [(m.msg_id, m.read_ct, m.message) for m in found] == [(1, 1, {"k": "a"})]
    found = clients.queue.read_with_poll(queue_name, 60, 9, conditional={"k": "b"})
    assert [m.msg_id for m in found] == [2, 3]


@pytest.mark.slow
def test_a_poll_of_an_empty_queue_ends_at_its_deadline(clients, queue_name):
    assert (
        clients.queue.read_with_poll(queue_name, 60, max_poll_seconds=1, poll_interval_ms=10) == []
    )


def test_a_poll_returns_what_is_sent_while_it_waits(clients, queue_name, observer):
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(
            clients.queue.read_with_poll(queue_name, 60, max_poll_seconds=600)
        )
    )
    thread.start()
    asleep = (
        "select exists (select from pg_stat_activity where wait_event = 'PgSleep' "
        "and datname = current_database() and query like '%read_with_poll%')"
    )
    wait_until(lambda: rows(observer, asleep) == [(True,)], "the poll to read once and sleep")
    observer.execute("select pgmq.send(%s, '\"late\"'::jsonb)", [queue_name])
    thread.join(timeout=30)

    assert [m.message for m in found] == ["late"]


def test_a_poll_of_a_queue_that_does_not_exist_names_it(clients):
    with pytest.raises(QueueNotFoundError, match="'nope'"):
        clients.queue.read_with_poll("nope", 60)


def test_a_queue_is_bound_listed_routed_to_and_unbound(clients, queue_name):
    star, exact = f"{queue_name}.*", f"{queue_name}.b"

    for pattern in (star, star, exact):
        assert clients.queue.bind_topic(pattern, queue_name) is None

    bindings = clients.queue.list_topic_bindings(queue_name)
    assert all(type(binding) is TopicBinding for binding in bindings)
    assert [(b.pattern, b.queue_name) for b in bindings] == [
        (exact, queue_name),
        (star, queue_name),
    ]
    assert abs(datetime.now(UTC) - bindings[0].bound_at) < SOON
    assert bindings[1].compiled_regex == rf"^{queue_name}\.[^.]+$"
    assert set(bindings) <= set(clients.queue.list_topic_bindings())
    assert clients.queue.list_topic_bindings("nope") == []

    assert clients.queue.test_routing(f"{queue_name}.a") == [
        RoutingMatch(star, queue_name, rf"^{queue_name}\.[^.]+$")
    ]
    assert [match.pattern for match in clients.queue.test_routing(exact)] == [star, exact]
    assert clients.queue.test_routing("nobody") == []

    assert clients.queue.unbind_topic(star, queue_name) is True
    assert clients.queue.unbind_topic(star, queue_name) is False
    assert clients.queue.test_routing(f"{queue_name}.a") == []


def test_a_message_to_a_topic_reaches_each_queue_once(clients, topic, observer):
    other = f"{topic}_other"
    clients.queue.create(other)
    for pattern in (f"{topic}.*", f"{topic}.a"):
        clients.queue.bind_topic(pattern, other)

    assert clients.queue.send_topic(f"{topic}.a", {"n": 1}, headers={"h": "é"}) == 2
    assert clients.queue.send_topic(f"{topic}.a.b", None) == 1
    assert clients.queue.send_topic("nobody", 1) == 0
    assert clients.queue.send_topic(f"{topic}.late", 1, delay=60) == 2

    found = [(m.message, m.headers) for m in clients.queue.read(topic, 60, 9)]
    assert found == [({"n": 1}, {"h": "é"}), (None, None)]
    assert [m.message for m in clients.queue.read(other, 60, 9)] == [{"n": 1}]
    null = f"select message is null, message = 'null' from pgmq.q_{topic} where msg_id = 2"
    assert rows(observer, null) == [(False, True)]


@pytest.mark.parametrize("form", ["seconds", "time"])
def test_a_batch_to_a_topic_returns_its_ids_by_queue(clients, topic, form):
    other, key = f"{topic}_other", f"{topic}.a"
    clients.queue.create(other)
    clients.queue.bind_topic(key, other)
    clients.queue.send(other, "before")
    delay = 60 if form == "seconds" else datetime.now(UTC) + timedelta(seconds=60)

    assert clients.queue.send_batch_topic(key, ["a", None], headers=[{"h": 1}, None]) == {
        topic: [1, 2],
        other: [2, 3],
    }
    assert clients.queue.send_batch_topic(key, ["late"], delay=delay) == {topic: [3], other: [4]}
    assert clients.queue.send_batch_topic("nobody", ["a"]) == {}

    found = [(m.message, m.headers) for m in clients.queue.read(topic, 60, 9)]
    assert found == [("a", {"h": 1}), (None, None)]


def test_server_error_names_the_reason_and_a_hint(clients, queue_name):
    for call, words in (
        (lambda: clients.queue.bind_topic("a..b", queue_name), "consecutive dots.*; put a word"),
        (lambda: clients.queue.unbind_topic("", queue_name), "pattern cannot be NULL or empty"),
        (lambda: clients.queue.test_routing("a.*"), "routing_key contains invalid characters"),
        (lambda: clients.queue.send_topic("a.", 1), "routing_key cannot end with a dot"),
        (lambda: clients.queue.send_batch_topic("", [1]), "routing_key cannot be NULL or empty"),
    ):
        with pytest.raises(ArgumentError, match=words):
            call()
    with pytest.raises(QueueNotFoundError, match="queue 'nope' does not exist"):
        clients.queue.bind_topic("a", "nope")


def test_invalid_message_of_a_topic_reaches_no_queue(clients, topic):
    for error, call in (
        (PayloadError, lambda: clients.queue.send_topic(f"{topic}.a", float("nan"))),
        (PayloadError, lambda: clients.queue.send_batch_topic(f"{topic}.a", [1, {2: 3}])),
        (ArgumentError, lambda: clients.queue.send_topic(f"{topic}.a", 1, delay=-1)),
        (ArgumentError, lambda: clients.queue.send_batch_topic(f"{topic}.a", [])),
        (ArgumentError, lambda: clients.queue.send_batch_topic(f"{topic}.a", [1], headers=[])),
    ):
        with pytest.raises(error):
            call()

    assert clients.queue.metrics(topic).total_messages == 0


def test_in_the_callers_transaction_nothing_is_sent_before_it_commits(caller, queue_name, observer):
    caller.queue.bind_topic(f"{queue_name}.a", queue_name)
    caller.queue.send_topic(f"{queue_name}.a", 1)

    assert rows(observer, f"select msg_id from pgmq.q_{queue_name}") == []
    assert caller.value("show synchronous_commit") == "local"
    caller.queue.read_with_poll(queue_name, 60)
    assert caller.value("show synchronous_commit") == "local"
    caller.source.commit()
    assert rows(observer, f"select read_ct from pgmq.q_{queue_name}") == [(1,)]
