"""Deduplication keys: a second send with the same key stores nothing."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import conninfo

from pgsluice import WorkQueue
from pgsluice.errors import (
    ArgumentError,
    DeduplicationOffError,
    QueueNotFoundError,
)
from support import rows, value

WINDOW = timedelta(minutes=5)


@pytest.fixture
def keyed(clients, queue_name):
    clients.queue.set_queue_options(queue_name, deduplication_window=WINDOW)
    return queue_name


def test_a_message_with_a_known_key_gets_the_first_ones_id_and_is_not_stored(
    clients, keyed, observer
):
    assert clients.queue.send(keyed, "first", headers={"h": 1}, deduplication_key="k") == 1
    assert clients.queue.send(keyed, "again", deduplication_key="k") == 1
    assert clients.queue.send(keyed, "without") == 2

    stored = rows(observer, f"select message, headers from pgmq.q_{keyed} order by msg_id")
    assert stored == [("first", {"h": 1}), ("without", None)]


def test_a_batch_has_a_key_or_none_for_each_message(clients, keyed, observer):
    send = clients.queue.send_batch
    assert send(keyed, ["a", "b"], deduplication_keys=["a", "b"]) == [1, 2]

    assert send(keyed, ["c", "b", "-"], deduplication_keys=("c", "b", None)) == [3, 2, 4]

    stored = rows(observer, f"select message from pgmq.q_{keyed} order by msg_id")
    assert stored == [("a",), ("b",), ("c",), ("-",)]


@pytest.mark.parametrize("form", ["seconds", "time"])
def test_a_delay_goes_with_the_key(clients, keyed, form):
    delay = 60 if form == "seconds" else datetime.now(UTC) + timedelta(seconds=60)

    assert clients.queue.send(keyed, 1, delay=delay, deduplication_key="a") == 1
    ids = clients.queue.send_batch(
        keyed, [1, 2], headers=[{}, None], delay=delay, deduplication_keys=["a", "b"]
    )

    assert ids == [1, 2]
    assert clients.queue.read(keyed, 60, 9) == []


def test_deduplication_key_on_a_queue_without_deduplication_is_an_error(clients, keyed):
    clients.queue.set_queue_options(keyed, deduplication_window=None)

    with pytest.raises(DeduplicationOffError, match="set a window with set_queue_options"):
        clients.queue.send(keyed, 1, deduplication_key="k")


def test_a_queue_that_does_not_exist_is_named(clients):
    for call in (
        lambda: clients.queue.send("nope", 1, deduplication_key="k"),
        lambda: clients.queue.send_batch("nope", [1], deduplication_keys=["k"]),
    ):
        with pytest.raises(QueueNotFoundError, match="'nope' does not exist; create it"):
            call()


def test_keys_and_windows_that_cannot_be_are_refused_and_nothing_is_sent(clients, keyed):
    for call in (
        lambda: clients.queue.set_queue_options(keyed, deduplication_window=timedelta(0)),
        lambda: clients.queue.send(keyed, 1, deduplication_key=""),
        lambda: clients.queue.send(keyed, 1, deduplication_key="k" * 1025),
        lambda: clients.queue.send(keyed, 1, deduplication_key="a\x00b"),
        lambda: clients.queue.send_batch(keyed, [1, 2], deduplication_keys=["a"]),
    ):
        with pytest.raises(ArgumentError):
            call()

    assert clients.queue.metrics(keyed).total_messages == 0


class LostReply:
    """Proxy for one connection that closes it instead of forwarding the reply to COMMIT."""

    def __init__(self, url):
        options = conninfo.conninfo_to_dict(url)
        self._socket = f"{options['host']}/.s.PGSQL.{options.get('port', 5432)}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = conninfo.make_conninfo(url, host="127.0.0.1", port=port)

    def __enter__(self):
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join(30)
        self._listener.close()

    def _serve(self):
        client, _ = self._listener.accept()
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._socket)
            while True:
                for source in select.select([client, server], [], [], 30)[0]:
                    data = source.recv(65536)
                    if not data or (source is server and b"COMMIT" in data):
                        return
                    (server if source is client else client).sendall(data)


@pytest.mark.parametrize(("key", "stored"), [("k", 1), (None, 2)], ids=["with key", "without"])
def test_after_a_lost_reply_a_message_is_sent_again_once_with_a_key_and_twice_without(
    observer, shared_url, queue_name, key, stored
):
    queue = WorkQueue(observer)
    queue.set_queue_options(queue_name, deduplication_window=WINDOW)
    with LostReply(shared_url) as proxy, closing(psycopg.connect(proxy.url)) as connection:
        WorkQueue(connection).send(queue_name, "x", deduplication_key=key)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()

    queue.send(queue_name, "x", deduplication_key=key)

    assert value(observer, f"select count(*) from pgmq.q_{queue_name}") == stored
