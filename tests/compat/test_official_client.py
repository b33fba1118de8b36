"""PGMQ's own Python clients, method by method, on our schema and on PGMQ's.

The clients are those of the package `pgmq`: on psycopg, on asyncpg, and on SQLAlchemy over each of
them. They are configured not to create the extension, and are otherwise unmodified. Each test names
the methods that it calls; a public method without a test fails the suite, as does a test that does
not call its methods.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from support import rows, value
from support.official import (
    CLIENTS,
    AbandonedError,
    OfficialClient,
    public_methods,
    sqlstate_of,
)

DRIVEN: dict[str, list[str]] = {}
# Methods that open and close a client, which every test calls.
LIFECYCLE = {"init", "close", "dispose", "session"}
_numbers = itertools.count(1)


def drives(*methods):
    def note(test):
        for method in methods:
            DRIVEN.setdefault(method, []).append(test.__name__)
        test.methods = methods
        return test

    return note


@pytest.fixture(scope="module", params=CLIENTS)
def connected(request, peer):
    client = OfficialClient(request.param, peer[1])
    yield client
    client.shut()


@pytest.fixture
def client(request, connected):
    connected.called.clear()
    yield connected
    assert set(request.function.methods) <= connected.called


@pytest.fixture
def queue(client, observer):
    name = f"official_{next(_numbers)}"
    client.create_queue(name)
    yield name
    observer.execute("select pgmq.drop_queue(%s)", [name])


@pytest.fixture
def groups(client, queue):
    """A queue with two groups: `a` has 1, 3 and 4, `b` has 2."""
    client.send_batch(
        queue, [{"n": n} for n in range(1, 5)], headers=[{"x-pgmq-group": g} for g in "abaa"]
    )
    return queue


def ids(messages):
    return [message.msg_id for message in messages]


def in_s(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_every_public_method_of_every_client_is_driven():
    of_clients = set().union(*(public_methods(client) for client in CLIENTS.values()))

    assert all(len(public_methods(client)) >= 40 for client in CLIENTS.values())
    assert of_clients == DRIVEN.keys() | LIFECYCLE


# Queues


@pytest.mark.slow
@drives("create_queue", "drop_queue", "list_queues")
def test_a_queue_comes_is_listed_and_goes(client):
    name = f"official_{next(_numbers)}"

    client.create_queue(name)
    client.create_queue(name)
    with pytest.warns(UserWarning, match="QueueRecord"):
        found = {record.queue_name: record for record in client.list_queues()}

    assert (found[name].is_partitioned, found[name].is_unlogged) == (False, False)
    assert abs(found[name].created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert client.drop_queue(name) is True
    assert client.drop_queue(name) is False


@drives("create_queue")
def test_an_unlogged_queue_is_one(client, observer):
    name = f"official_{next(_numbers)}"

    client.create_queue(name, unlogged=True)

    query = "select relpersistence::text from pg_class where oid = %s::regclass"
    assert value(observer, query, f"pgmq.q_{name}") == "u"
    client.drop_queue(name)


@drives("validate_queue_name")
def test_a_name_too_long_is_refused(client):
    assert client.validate_queue_name("n" * 47) is True
    with pytest.raises(Exception, match="queue name is too long, maximum length is 47") as raised:
        client.validate_queue_name("n" * 48)
    assert sqlstate_of(raised.value) == "P0001"


@drives("metrics", "metrics_all")
def test_metrics_count_what_was_sent_and_what_is_visible(client, queue):
    client.send_batch(queue, [{"n": 1}, {"n": 2}])
    client.send(queue, {"n": 3}, delay=60)

    one = client.metrics(queue)
    (same,) = [found for found in client.metrics_all() if found.queue_name == queue]

    for found in (one, same):
        assert (found.queue_name, found.queue_length, found.queue_visible_length) == (queue, 3, 2)
        assert found.total_messages == 3
        assert 0 <= found.newest_msg_age_sec <= found.oldest_msg_age_sec < 60


@drives("purge")
def test_purge_returns_how_many_it_removed(client, queue):
    client.send_batch(queue, [{"n": 1}, {"n": 2}])

    assert client.purge(queue) == 2
    assert client.purge(queue) == 0
    assert client.send(queue, {"n": 3}) == 3


@drives("detach_archive")
def test_detach_archive_changes_nothing(client, queue, observer):
    client.detach_archive(queue)

    assert value(observer, "select to_regclass(%s) is not null", f"pgmq.a_{queue}") is True


@drives("create_fifo_index", "create_fifo_indexes_all")
def test_indexes_for_groups_are_made(client, queue, observer):
    query = "select count(*) from pg_index where indrelid = %s::regclass"
    before = value(observer, query, f"pgmq.q_{queue}")

    client.create_fifo_index(queue)
    client.create_fifo_index(queue)
    client.create_fifo_indexes_all()

    assert value(observer, query, f"pgmq.q_{queue}") > before


@pytest.mark.parametrize("interval", [(100, 1000), ("1 day", "1 month")], ids=["by id", "by time"])
@drives("create_partitioned_queue")
def test_a_partitioned_queue_works_here_and_needs_pg_partman_there(
    client, peer, observer, interval
):
    name = f"official_{next(_numbers)}"
    if peer[0] == "upstream":
        with pytest.raises(Exception, match="pg_partman is required") as raised:
            client.create_partitioned_queue(name, *interval)
        assert sqlstate_of(raised.value) == "P0001"
        return

    client.create_partitioned_queue(name, *interval)

    with pytest.warns(UserWarning, match="QueueRecord"):
        found = {record.queue_name: record for record in client.list_queues()}
    assert found[name].is_partitioned is True
    assert client.send_batch(name, [{"n": 1}, {"n": 2}, {"n": 3}]) == [1, 2, 3]
    assert ids(client.read(name, qty=2)) == [1, 2]
    assert client.archive(name, 1) is True
    assert client.delete(name, 2) is True
    assert client.pop(name).msg_id == 3
    assert client.metrics(name).queue_length == 0
    assert rows(observer, f"select msg_id from pgmq.a_{name}") == [(1,)]
    assert client.drop_queue(name) is True


@drives("convert_archive_partitioned")
def test_an_archive_is_partitioned_here_and_needs_pg_partman_there(client, peer, queue, observer):
    client.archive(queue, client.send(queue, {"n": 1}))
    if peer[0] == "upstream":
        with pytest.raises(Exception, match="null values cannot be formatted") as raised:
            client.convert_archive_partitioned(queue)
        assert sqlstate_of(raised.value) == "22004"
        return

    client.convert_archive_partitioned(queue)
    client.convert_archive_partitioned(queue)

    query = "select relkind::text from pg_class where oid = %s::regclass"
    assert value(observer, query, f"pgmq.a_{queue}") == "p"
    client.archive(queue, client.send(queue, {"n": 2}))
    assert rows(observer, f"select msg_id from pgmq.a_{queue} order by msg_id") == [(1,), (2,)]


# Sending


@drives("send", "read")
def test_a_message_arrives_as_it_was_sent(client, queue):
    message = {"text": "ünïcode 'quoted' \"too\"", "list": [1, None, {"deep": True}], "n": 1.5}

    assert client.send(queue, message) == 1
    found = client.read(queue, vt=30)

    assert (found.msg_id, found.read_ct, found.message, found.headers) == (1, 1, message, None)
    assert timedelta(seconds=29) < found.vt - found.last_read_at <= timedelta(seconds=31)
    assert abs(found.enqueued_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert client.read(queue, vt=30) is None


@pytest.mark.parametrize("headers", [None, {"h": [1, "x"]}], ids=["plain", "with headers"])
@pytest.mark.parametrize("when", ["at once", "seconds", "timestamp", "tz"])
@drives("send", "read")
def test_send_takes_headers_and_any_delay(client, queue, observer, headers, when):
    delay = {
        "at once": {},
        "seconds": {"delay": 60},
        "timestamp": {"delay": in_s(60)},
        "tz": {"tz": in_s(60)},
    }[when]

    assert client.send(queue, {"n": 1}, headers, **delay) == 1

    found = client.read(queue)
    assert (found is None) is (when != "at once")
    query = (
        f"select message, headers, round(extract(epoch from vt - now()) / 10) from pgmq.q_{queue}"
    )
    if found is None:
        assert rows(observer, query) == [({"n": 1}, headers, 6)]
    else:
        assert (found.message, found.headers) == ({"n": 1}, headers)


@pytest.mark.parametrize("headers", [None, [{"h": 1}, {"h": 2}]], ids=["plain", "with headers"])
@pytest.mark.parametrize("when", ["at once", "seconds", "timestamp"])
@drives("send_batch")
def test_send_batch_takes_headers_and_any_delay(client, queue, observer, headers, when):
    delay = {"at once": None, "seconds": 60, "timestamp": in_s(60)}[when]

    assert client.send_batch(queue, [{"n": 1}, {"n": 2}], headers, delay) == [1, 2]

    later = 0 if when == "at once" else 6
    query = (
        "select message, headers, round(extract(epoch from vt - now()) / 10) "
        f"from pgmq.q_{queue} order by msg_id"
    )
    first, second = headers or (None, None)
    assert rows(observer, query) == [({"n": 1}, first, later), ({"n": 2}, second, later)]


@drives("send", "send_batch")
def test_server_error_keeps_its_sqlstate(client, queue):
    for method, message in (("send", {}), ("send_batch", [{}])):
        with pytest.raises(Exception, match="does not exist") as raised:
            getattr(client, method)("no_such_queue", message)
        assert sqlstate_of(raised.value) == "42P01"
    assert client.send_batch(queue, []) == []
    with pytest.raises(ValueError, match="headers list must match messages list length"):
        client.send_batch(queue, [{}, {}], [{}])


@drives("send")
def test_a_send_in_a_transaction_that_fails_is_not_there(client, queue):
    with pytest.raises(AbandonedError):
        client.send_and_abandon(queue, {"n": 1})
    client.send(queue, {"n": 2})

    assert client.read(queue).message == {"n": 2}
    assert client.read(queue) is None


# Topics


@drives(
    "bind_topic", "unbind_topic", "list_topic_bindings", "test_routing", "send_topic", "read_batch"
)
def test_a_topic_reaches_the_queues_bound_to_it(client, queue):
    client.bind_topic(f"{queue}.*", queue)
    client.bind_topic(f"{queue}.*", queue)
    key = f"{queue}.created"

    (binding,) = client.list_topic_bindings(queue)
    assert (binding.pattern, binding.queue_name) == (f"{queue}.*", queue)
    assert binding.compiled_regex == rf"^{queue}\.[^.]+$"
    assert abs(binding.bound_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert client.list_topic_bindings() == [binding]
    (route,) = client.test_routing(key)
    assert (route.pattern, route.queue_name) == (binding.pattern, queue)
    assert route.compiled_regex == binding.compiled_regex

    assert client.send_topic(key, {"n": 1}) == 1
    assert client.send_topic(key, {"n": 2}, delay=60) == 1
    assert client.send_topic(key, {"n": 3}, headers={"h": 3}, delay=0) == 1
    assert client.send_topic("other", {"n": 4}) == 0
    found = client.read_batch(queue, batch_size=5)
    assert [(m.message, m.headers) for m in found] == [({"n": 1}, None), ({"n": 3}, {"h": 3})]

    assert client.unbind_topic(f"{queue}.*", queue) is True
    assert client.unbind_topic(f"{queue}.*", queue) is False


@drives("send_topic")
def test_headers_without_a_delay_have_no_form_of_send_topic_in_pgmq_either(client):
    """The client's own SQL calls an overload that PGMQ does not have."""
    with pytest.raises(Exception, match="does not exist") as raised:
        client.send_topic("any.key", {"n": 1}, headers={"h": 1})

    assert sqlstate_of(raised.value) == "42883"


@pytest.mark.parametrize("headers", [None, [{"h": 1}, {"h": 2}]], ids=["plain", "with headers"])
@pytest.mark.parametrize("when", ["at once", "seconds", "timestamp"])
@drives("send_batch_topic")
def test_a_batch_reaches_every_queue_bound_to_its_topic(client, queue, observer, headers, when):
    other = f"{queue}_too"
    client.create_queue(other)
    client.bind_topic(f"{queue}.#", queue)
    client.bind_topic(f"{queue}.*", other)
    delay = {"at once": None, "seconds": 60, "timestamp": in_s(60)}[when]

    sent = client.send_batch_topic(f"{queue}.x", [{"n": 1}, {"n": 2}], headers, delay)

    assert [(one.queue_name, one.msg_id) for one in sent] == [
        (name, msg_id) for name in (queue, other) for msg_id in (1, 2)
    ]
    first, second = headers or (None, None)
    later = 0 if when == "at once" else 6
    for name in (queue, other):
        query = (
            "select message, headers, round(extract(epoch from vt - now()) / 10) "
            f"from pgmq.q_{name} order by msg_id"
        )
        assert rows(observer, query) == [({"n": 1}, first, later), ({"n": 2}, second, later)]
    client.drop_queue(other)


@drives("validate_routing_key", "validate_topic_pattern")
def test_keys_and_patterns_are_judged(client):
    assert client.validate_routing_key("logs.error") is True
    assert client.validate_routing_key("logs.*") is False
    assert client.validate_topic_pattern("logs.*") is True
    assert client.validate_topic_pattern("logs.**") is False


# Reading


@drives("read", "read_batch")
def test_a_read_takes_the_oldest_or_what_it_asks_for(client, queue):
    client.send_batch(queue, [{"kind": kind} for kind in "abab"])

    assert ids(client.read(queue, qty=9, conditional={"kind": "b"})) == [2, 4]
    assert client.read(queue).msg_id == 1
    assert ids(client.read(queue, qty=9)) == [3]
    assert client.read(queue, qty=9) == []
    assert client.read_batch(queue) == []


@pytest.mark.slow
@drives("read_with_poll")
def test_a_poll_returns_what_is_there_or_nothing(client, queue):
    assert client.read_with_poll(queue, max_poll_seconds=1, poll_interval_ms=10) == []
    client.send_batch(queue, [{"kind": kind} for kind in "aab"])

    assert ids(client.read_with_poll(queue, qty=2, conditional={"kind": "b"})) == [3]
    assert ids(client.read_with_poll(queue, qty=2, poll_interval_ms=10)) == [1, 2]


@drives("read_grouped", "read_grouped_with_poll")
def test_groups_are_read_oldest_first(client, groups):
    assert ids(client.read_grouped(groups, qty=3)) == [1, 3, 4]
    assert ids(client.read_grouped_with_poll(groups, qty=3)) == [2]
    assert client.read_grouped(groups, qty=3) == []


@drives("read_grouped_rr", "read_grouped_rr_with_poll")
def test_groups_take_turns(client, groups):
    assert ids(client.read_grouped_rr(groups, qty=2)) == [1, 2]
    client.delete_batch(groups, [1, 2])

    assert ids(client.read_grouped_rr_with_poll(groups, qty=9)) == [3, 4]
    assert client.read_grouped_rr(groups, qty=9) == []


@drives("pop")
def test_pop_takes_messages_away(client, queue):
    client.send_batch(queue, [{"n": n} for n in (1, 2, 3)])

    assert client.pop(queue).msg_id == 1
    popped = client.pop(queue, qty=9)
    # PGMQ promises no order.
    assert sorted(ids(popped)) == [2, 3]
    assert [message.read_ct for message in popped] == [0, 0]
    assert client.pop(queue) is None
    assert client.pop(queue, qty=9) == []


@drives("set_vt")
def test_set_vt_moves_the_time_of_one_or_many(client, queue):
    client.send_batch(queue, [{"n": n} for n in (1, 2, 3)])
    time = in_s(600)

    assert client.set_vt(queue, 1, 60).msg_id == 1
    assert client.set_vt(queue, 1, time).vt == time
    assert client.set_vt(queue, 99, 60) is None
    assert sorted(ids(client.set_vt(queue, [2, 99], 60))) == [2]
    assert {message.vt for message in client.set_vt(queue, [2, 3], time)} == {time}
    assert client.read(queue) is None
    client.set_vt(queue, 3, 0)
    assert client.read(queue).msg_id == 3


# Finishing


@drives("delete", "delete_batch")
def test_deleted_message_is_not_read(client, queue, observer):
    client.send_batch(queue, [{"n": n} for n in (1, 2, 3)])

    assert client.delete(queue, 1) is True
    assert client.delete(queue, 1) is False
    assert sorted(client.delete_batch(queue, [1, 2, 3])) == [2, 3]
    assert client.delete_batch(queue, []) == []
    assert rows(observer, f"select * from pgmq.a_{queue}") == []


@drives("archive", "archive_batch")
def test_archived_message_is_in_the_archive(client, queue, observer):
    client.send_batch(queue, [{"n": n} for n in (1, 2, 3)], headers=[{"h": n} for n in (1, 2, 3)])

    assert client.archive(queue, 1) is True
    assert client.archive(queue, 1) is False
    assert sorted(client.archive_batch(queue, [1, 2, 3])) == [2, 3]
    assert client.archive_batch(queue, []) == []
    query = f"select msg_id, message, headers from pgmq.a_{queue} order by msg_id"
    assert rows(observer, query) == [(n, {"n": n}, {"h": n}) for n in (1, 2, 3)]


# Notifications


@drives("enable_notify", "update_notify", "disable_notify", "list_notify_throttles")
def test_notifications_are_set_listed_and_unset(client, queue):
    client.enable_notify(queue)
    client.update_notify(queue, 40)

    (found,) = client.list_notify_throttles()
    assert (found.queue_name, found.throttle_interval_ms) == (queue, 40)
    assert found.last_notified_at == datetime.fromtimestamp(0, UTC)

    client.disable_notify(queue)
    assert client.list_notify_throttles() == []
    with pytest.raises(Exception, match="does not have notify_insert enabled") as raised:
        client.update_notify(queue, 40)
    assert sqlstate_of(raised.value) == "P0001"


# The clients themselves


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_opens_and_closes_by_its_own_methods(peer, kind):
    client = OfficialClient(kind, peer[1])
    if "session" in public_methods(CLIENTS[kind]):
        session = client.session()
        assert session.bind is client.wrapped.engine
        client.run(session.close)
    client.create_queue("opened")

    client.shut()

    assert getattr(client.wrapped, "pool", None) is None
    assert getattr(client.wrapped, "engine", None) is None
