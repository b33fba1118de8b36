"""Sends by key to the shard of the key, sync and async: `WorkQueue.at`, and handlers of an app with shards."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest

from pgsluice import AsyncWorkQueue, WorkQueue, pools
from pgsluice.client._async import shard_runner as async_shard_runner
from pgsluice.client._sync import shard_runner
from pgsluice.errors import (
    ArgumentError,
    ConfigurationError,
    ConnectionFailedError,
    DirectoryChangedError,
    ResultNotKeptError,
    ResultTimeoutError,
    RetryableError,
    ShardError,
)
from pgsluice.shards import ShardPool, Shards
from pgsluice.worker import App
from support.shards import Fleet, fleet_of


@pytest.fixture
def fleet(make_database_18) -> Fleet:
    fleet = fleet_of(make_database_18)
    fleet.create_queue()
    return fleet


@pytest.fixture(params=["sync", "async"])
def send(request, fleet):
    """Function that sends a message with a key by `WorkQueue.at`, and returns its msg_id."""
    pool = ShardPool(fleet.shards)

    async def send_async(key, message, **options):
        async with pool:
            return await AsyncWorkQueue(pool).at(key).send("jobs", message, **options)

    def send(key, message, **options):
        if request.param == "async":
            return asyncio.run(send_async(key, message, **options))
        return WorkQueue(pool).at(key).send("jobs", message, **options)

    with pool:
        yield send


def test_message_is_sent_to_the_shard_of_its_key_with_the_key(fleet, send):
    a, b = fleet.key("a"), fleet.key("b")
    assert send(a, 1) == 1
    assert send(b, 2) == 1
    assert send(a, 3, headers={"trace": "x"}) == 2
    assert fleet.messages() == {"a": [(1, a), (3, a)], "b": [(2, b)]}


def test_header_with_another_key_is_refused(fleet, send):
    with pytest.raises(ArgumentError, match="key and the header 'x-pgmq-group' differ"):
        send(fleet.key("a"), 1, headers={"x-pgmq-group": "other"})


def test_sender_follows_a_changed_directory_without_its_file(fleet, send):
    key = fleet.key("a")
    send(key, 1)
    fleet.apply({key: "b"})
    send(key, 2)
    assert fleet.messages() == {"a": [(1, key)], "b": [(2, key)]}


def test_new_sender_follows_the_databases_and_not_its_file(fleet, send, caplog):
    key = fleet.key("a")
    fleet.apply({key: "b"})
    send(key, 1)
    assert fleet.messages() == {"a": [], "b": [(1, key)]}
    assert "directory of shards differs from the file" in caplog.text


def test_message_of_a_moving_key_waits_until_the_move_is_finished(fleet, send):
    key = fleet.key("a")
    send(key, 1)
    fleet.begin({key: "b"})
    sending = threading.Thread(target=send, args=(key, 2))
    sending.start()
    sending.join(1.0)
    assert sending.is_alive()
    assert fleet.messages() == {"a": [(1, key)], "b": []}
    fleet.finish()
    sending.join(10.0)
    assert fleet.messages() == {"a": [(1, key)], "b": [(2, key)]}


def test_other_keys_are_sent_while_messages_move(fleet, send):
    moving, a, b = fleet.key("a"), fleet.key("a", 1), fleet.key("b")
    send(a, 1)
    fleet.begin({moving: "b"}, on="a")
    send(a, 2)
    send(b, 3)
    assert fleet.messages() == {"a": [(1, a), (2, a)], "b": [(3, b)]}


def test_wait_for_a_move_ends_with_an_error_that_names_it(fleet, send, monkeypatch):
    for module in (shard_runner, async_shard_runner):
        monkeypatch.setattr(module, "_MOVING_MAX_S", 0.3)
    key = fleet.key("a")
    fleet.begin({key: "b"})
    with pytest.raises(
        RetryableError,
        match=f"messages of key '{key}' move to shard 'b' .directory of generation 2",
    ):
        send(key, 1)


def test_database_without_a_directory_is_refused_with_the_way_out(make_database_18):
    fleet = Fleet({"a": make_database_18().url})
    words = "store it with: pgsluice shards apply --shards"
    with ShardPool(fleet.shards) as pool, pytest.raises(ShardError, match=words):
        WorkQueue(pool).at("key").send("jobs", 1)


def test_swapped_addresses_are_refused(fleet):
    a, b = fleet.urls.values()
    with (
        ShardPool(Shards.of({"a": b, "b": a})) as pool,
        pytest.raises(
            ShardError, match=r"the database of shard 'a' in Shards.of\(\) is the shard 'b'"
        ),
    ):
        WorkQueue(pool).at(fleet.key("a")).send("jobs", 1)


def test_address_that_changed_to_another_shard_is_refused_by_the_database(fleet):
    """The directory is known already, so that only the check of the send can notice."""
    with ShardPool(fleet.shards) as pool:
        queue = WorkQueue(pool)
        queue.at(fleet.key("a")).send("jobs", 1)
        pool.router.shards = Shards.of({"a": fleet.urls["b"], "b": fleet.urls["b"]})
        with pytest.raises(ShardError, match="is the shard b, not a"):
            queue.at(fleet.key("a")).send("jobs", 2)
    assert fleet.messages()["b"] == []


def test_shard_that_is_down_fails_only_its_keys(fleet):
    a, b = fleet.key("a"), fleet.key("b")
    shards = Shards.of({**fleet.urls, "b": "postgresql://127.0.0.1:1/nowhere"})
    with ShardPool(shards) as pool:
        queue = WorkQueue(pool)
        assert queue.at(a).send("jobs", 1) == 1
        with pytest.raises(ConnectionFailedError, match="port=1"):
            queue.at(b).send("jobs", 2)
        assert queue.at(a).send("jobs", 3) == 2


def test_connection_attempt_to_a_silent_shard_delays_no_other(fleet, monkeypatch):
    attempted, answered = threading.Event(), threading.Event()
    connect = pools.connect

    def silent(target):
        if target.conninfo == fleet.urls["b"]:
            attempted.set()
            answered.wait(20)
        return connect(target)

    monkeypatch.setattr(pools, "connect", silent)
    with ShardPool(fleet.shards) as pool:
        queue = WorkQueue(pool)
        sending = threading.Thread(target=lambda: queue.at(fleet.key("b")).send("jobs", 1))
        sending.start()
        assert attempted.wait(10)
        assert queue.at(fleet.key("a")).send("jobs", 2) == 1
        assert sending.is_alive()
        answered.set()
        sending.join(10)


def test_sender_reads_its_file_again_for_a_new_shard(fleet, make_database_18, tmp_path):
    path = fleet.file(tmp_path)
    with ShardPool(path) as pool:
        queue = WorkQueue(pool)
        queue.at(fleet.key("a")).send("jobs", 1)
        fleet.urls["c"] = make_database_18().url
        fleet.create_queue()
        fleet.file(tmp_path)
        fleet.apply()
        key = next(
            key for key in (f"key {n}" for n in range(100)) if fleet.directory.home(key) == "c"
        )
        queue.at(key).send("jobs", 2)
    assert fleet.messages()["c"] == [(2, key)]


def test_only_keys_of_a_shard_that_the_file_lacks_fail(fleet, make_database_18, tmp_path):
    with ShardPool(fleet.file(tmp_path)) as pool:
        queue = WorkQueue(pool)
        key = fleet.key("a")
        queue.at(key).send("jobs", 1)
        fleet.urls["c"] = make_database_18().url
        fleet.create_queue()
        fleet.apply({key: "a"})
        with pytest.raises(ConfigurationError, match=r"shards.toml has no shard 'c'; add it"):
            queue.at(fleet.key("c")).send("jobs", 2)
        queue.at(key).send("jobs", 3)


def test_client_of_several_databases_needs_a_key(fleet):
    with ShardPool(fleet.shards) as pool:
        with pytest.raises(ArgumentError, match=r"choose one with at\(key\)"):
            WorkQueue(pool).send("jobs", 1)
        with pytest.raises(ArgumentError, match="key is of type int"):
            WorkQueue(pool).at(7)


def test_client_of_one_database_has_no_shards(fleet):
    with (
        psycopg.connect(fleet.urls["a"]) as connection,
        pytest.raises(ArgumentError, match="pass a ShardPool"),
    ):
        WorkQueue(connection).at("key")


def test_other_methods_run_at_the_shard_of_the_key(fleet):
    with ShardPool(fleet.shards) as pool:
        queue = WorkQueue(pool).at(fleet.key("b"))
        assert queue.send_batch("jobs", [1, 2], headers=[None, {"n": 2}]) == [1, 2]
        assert [message.message for message in queue.read("jobs", 30, 5)] == [1, 2]
        assert queue.delete("jobs", 1) is True
    assert [each for each, _ in fleet.messages()["b"]] == [2]


# Handlers of an app ---------------------------------------------------------------------------------------------------


@pytest.fixture
def app(fleet):
    app = App(shards=fleet.shards)
    yield app
    app.close()


@pytest.fixture
def handler(app):
    @app.handler("jobs", keep_result=60)
    def jobs(payload: int) -> int:
        return payload

    return jobs


def test_handler_sends_to_the_shard_of_the_key(fleet, handler):
    a, b = fleet.key("a"), fleet.key("b")
    assert handler.send(1, key=a) == 1
    assert handler.send(2, key=b) == 1
    assert handler.send_many([3, 4, 5, 6], keys=[a, b, a, b]) == [2, 2, 3, 3]
    assert fleet.messages() == {"a": [(1, a), (3, a), (5, a)], "b": [(2, b), (4, b), (6, b)]}


async def test_handler_sends_in_an_event_loop(fleet, handler, app):
    a, b = fleet.key("a"), fleet.key("b")
    assert await handler.send_async(1, key=a) == 1
    assert await handler.send_many_async([3, 4], keys=[b, a]) == [1, 2]
    assert await handler.cancel_async(1, key=a) is True
    await app.aclose()
    assert fleet.messages() == {"a": [(4, a)], "b": [(3, b)]}


def test_app_with_shards_needs_a_key(handler):
    for send in (
        lambda: handler.send(1),
        lambda: handler.send_many([1, 2], keys=["a", None]),
        lambda: handler.cancel(1),
        lambda: handler.retry_now(1),
        lambda: handler.result(1, timeout_s=0),
    ):
        with pytest.raises(ArgumentError, match="the app has shards, and no key chooses one"):
            send()


def test_many_are_sent_again_to_the_shards_of_a_changed_directory(fleet, handler):
    keys = [fleet.key("a"), fleet.key("a", 1), fleet.key("b")]
    handler.send_many([1, 2, 3], keys=keys)
    fleet.apply({keys[0]: "b"})
    handler.send_many([4, 5, 6], keys=keys)
    assert [each for each, _ in fleet.messages()["a"]] == [1, 2, 5]
    assert [each for each, _ in fleet.messages()["b"]] == [3, 4, 6]


def test_message_is_sent_in_the_transaction_of_the_shard_of_its_key(fleet, handler):
    with psycopg.connect(fleet.urls["a"]) as connection:
        handler.send(1, key=fleet.key("a"), connection=connection)
        assert fleet.messages()["a"] == []
        with pytest.raises(
            ShardError, match="pass a connection to shard 'b', to which the key belongs, or none"
        ):
            handler.send(2, key=fleet.key("b"), connection=connection)
        connection.rollback()
        handler.send(3, key=fleet.key("a"), connection=connection)
    assert [each for each, _ in fleet.messages()["a"]] == [3]


def test_transaction_that_sends_by_an_old_directory_is_repeated_by_the_caller(fleet, handler):
    key = fleet.key("a")
    handler.send(1, key=key)
    fleet.apply({key: "b"})
    refused = pytest.raises(DirectoryChangedError, match="roll back, and send again")
    with psycopg.connect(fleet.urls["a"]) as connection, refused:
        handler.send(2, key=key, connection=connection)
    with psycopg.connect(fleet.urls["b"]) as connection:
        handler.send(3, key=key, connection=connection)
    assert fleet.messages() == {"a": [(1, key)], "b": [(3, key)]}


def test_transaction_of_the_caller_does_not_wait_for_a_move(fleet, handler):
    key = fleet.key("a")
    handler.send(1, key=fleet.key("a", 1))
    fleet.begin({key: "b"})
    handler.send(2, key=fleet.key("a", 1))
    with (
        psycopg.connect(fleet.urls["b"]) as connection,
        pytest.raises(RetryableError, match="move to shard 'b'"),
    ):
        handler.send(3, key=key, connection=connection)


def test_message_of_a_shard_is_cancelled_and_retried_by_its_key(fleet, handler):
    a, b = fleet.key("a"), fleet.key("b")
    handler.send(1, key=a, delay_s=60)
    handler.send(2, key=b)
    assert handler.retry_now(1, key=a) is True
    assert handler.cancel(1, key=b) is True
    assert fleet.messages() == {"a": [(1, a)], "b": []}


def test_result_is_read_from_the_shard_of_the_key(fleet, handler):
    msg_id = handler.send(7, key=fleet.key("b"))
    with pytest.raises(ResultTimeoutError):
        handler.result(msg_id, timeout_s=0, key=fleet.key("b"))
    with pytest.raises(ResultNotKeptError):
        handler.result(msg_id, timeout_s=0, key=fleet.key("a"))


def test_event_with_a_key_is_sent_to_its_shard(fleet, app):
    for name in fleet.urls:
        fleet.on(name, "select pgq.create_queue('events')")

    @app.handler(log="events", consumer="c", event_types=["t"])
    def events(payload: int) -> None: ...

    events.send(1, key=fleet.key("b"))
    events.send_many([2, 3], keys=[fleet.key("a"), fleet.key("b")])
    counts = {name: fleet.on(name, "select count(*) from pgq.event_1")[0][0] for name in fleet.urls}
    assert counts == {"a": 1, "b": 2}


def test_queues_are_created_on_every_shard(fleet, app):
    @app.handler("more")
    def more(payload: int) -> None: ...

    app.create_queues()
    assert fleet.messages("more") == {"a": [], "b": []}


def test_dsn_and_shards_are_mutually_exclusive(fleet):
    with pytest.raises(ArgumentError, match="dsn and shards are mutually exclusive"):
        App("postgresql://a/b", shards=fleet.shards)
