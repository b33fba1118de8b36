"""The notification listeners of PGMQ's own Python package, on our schema and on PGMQ's."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading

import psycopg
import pytest
from pgmq.notify_listener import AsyncNotificationListener, SyncNotificationListener

from support import rows, wait_until
from support.official import OfficialClient, public_methods

INSERT = {"event": "insert", "payload_empty": True}
READY = {"ready": True}
BY_HAND = {"by": "hand"}
_numbers = itertools.count(1)


class Listening:
    """A listener in a thread, until it receives a notification."""

    def __init__(self, kind, url):
        self.received = []
        self._ready = threading.Event()
        self._client = OfficialClient("psycopg", url)
        self._work = self._listen if kind == "psycopg" else self._listen_asyncio
        self._listener = None
        self._thread = None

    def listen(self, queue, **options):
        self._thread = threading.Thread(target=self._work, args=(queue,), kwargs=options)
        self._thread.start()

    def wait_until_ready(self, observer, queue):
        """Call until the session responds, as LISTEN is not visible from outside."""

        def answered():
            call = "select pg_notify(%s, %s)"
            rows(observer, call, f"pgmq.q_{queue}.INSERT", json.dumps(READY))
            return self._ready.is_set()

        wait_until(answered, f"the listener on {queue}")

    def join(self):
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._client.shut()

    def _receive(self, payload):
        if payload == READY:
            self._ready.set()
            return
        self.received.append(payload)
        self._listener.stop()

    def _listen(self, queue, timeout=None):
        self._listener = SyncNotificationListener(self._client.wrapped)
        self._listener.listen(queue, self._receive, timeout)

    def _listen_asyncio(self, queue):
        async def work():
            self._listener = AsyncNotificationListener(self._client.wrapped)

            async def receive(payload):
                self._receive(payload)

            await self._listener.listen(queue, receive)

        asyncio.run(work())


@pytest.fixture(params=["psycopg", "asyncpg"])
def listening(request, peer):
    return Listening(request.param, peer[1])


def new_queue(observer, name):
    queue = f"{name}_{next(_numbers)}"
    rows(observer, "select pgmq.create(%s)", queue)
    rows(observer, "select pgmq.enable_notify_insert(%s, 0)", queue)
    return queue


def call_by_hand(observer, queue):
    """Receive earlier notifications first: the order of commits."""
    rows(observer, "select pg_notify(%s, %s)", f"pgmq.q_{queue}.INSERT", json.dumps(BY_HAND))


def test_a_listener_has_no_other_methods_than_these():
    for listener in (SyncNotificationListener, AsyncNotificationListener):
        assert public_methods(listener) == {"listen", "stop"}


@pytest.mark.slow
def test_listener_receives_a_message_and_stops(listening, observer):
    queue = new_queue(observer, "received")
    listening.listen(queue)
    listening.wait_until_ready(observer, queue)

    rows(observer, "select pgmq.send(%s, '1'::jsonb)", queue)

    listening.join()
    assert listening.received == [INSERT]


def test_listener_receives_nothing_of_a_rolled_back_send(listening, observer, peer):
    queue = new_queue(observer, "rolled")
    listening.listen(queue)
    listening.wait_until_ready(observer, queue)

    with psycopg.connect(peer[1]) as sender:
        sender.execute("select pgmq.send(%s, '1'::jsonb)", [queue])
        sender.rollback()
    call_by_hand(observer, queue)

    listening.join()
    assert listening.received == [BY_HAND]


def test_mixed_case_queue_notifies_in_ours_and_never_in_pgmq(listening, observer, peer):
    queue = new_queue(observer, "MixedCase")
    listening.listen(queue)
    listening.wait_until_ready(observer, queue)

    rows(observer, "select pgmq.send(%s, '1'::jsonb)", queue)

    if peer[0] == "upstream":
        call_by_hand(observer, queue)
    listening.join()
    assert listening.received == [INSERT if peer[0] == "ours" else BY_HAND]


def test_a_listener_of_psycopg_gives_up_after_its_timeout(observer, peer):
    listening = Listening("psycopg", peer[1])
    listening.listen(new_queue(observer, "silent"), timeout=0.2)

    listening.join()

    assert listening.received == []
