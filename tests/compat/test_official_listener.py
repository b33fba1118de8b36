"""The notification listeners of PGMQ's own Python package, on our schema and on PGMQ's."""

from __future__ import annotations

import asyncio
import itertools
import threading

import psycopg
import pytest
from pgmq.notify_listener import AsyncNotificationListener, SyncNotificationListener

from support import rows, value, wait_until
from support_official import OfficialClient, public_methods

HEARD = {"event": "insert", "payload_empty": True}
_numbers = itertools.count(1)


class Listening:
    """A listener at work in a thread of its own until it has heard something, or is told to stop."""

    def __init__(self, kind, url):
        self.heard = []
        self._client = OfficialClient("psycopg", url)
        self._kind = kind
        self._listener = None
        self._thread = None

    def listen(self, queue, **options):
        work = self._listen if self._kind == "psycopg" else self._listen_asyncio
        self._thread = threading.Thread(target=work, args=(queue,), kwargs=options)
        self._thread.start()

    def _listen(self, queue, timeout=None):
        self._listener = SyncNotificationListener(self._client.wrapped)

        def hear(payload):
            self.heard.append(payload)
            self._listener.stop()

        self._listener.listen(queue, hear, timeout)

    def _listen_asyncio(self, queue):
        async def work():
            self._listener = AsyncNotificationListener(self._client.wrapped)

            async def hear(payload):
                self.heard.append(payload)
                self._listener.stop()

            await self._listener.listen(queue, hear)

        asyncio.run(work())

    def join(self):
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._client.shut()


@pytest.fixture(params=["psycopg", "asyncpg"])
def listening(request, peer):
    return Listening(request.param, peer[1])


def wait_for_listener(observer, queue):
    query = """
        select count(*) from pg_stat_activity
        where query ilike 'listen%%' and query like %s and state = 'idle' and pid <> pg_backend_pid()
    """
    pattern = f'%"pgmq.q_{queue}.INSERT"%'
    wait_until(lambda: value(observer, query, pattern) == 1, f"a listener on {queue}")


def new_queue(observer, name):
    queue = f"{name}_{next(_numbers)}"
    rows(observer, "select pgmq.create(%s)", queue)
    rows(observer, "select pgmq.enable_notify_insert(%s, 0)", queue)
    return queue


def test_a_listener_has_no_other_methods_than_these():
    for listener in (SyncNotificationListener, AsyncNotificationListener):
        assert public_methods(listener) == {"listen", "stop"}


def test_a_listener_hears_of_a_message_and_stops(listening, observer):
    queue = new_queue(observer, "heard")
    listening.listen(queue)
    wait_for_listener(observer, queue)

    rows(observer, "select pgmq.send(%s, '1'::jsonb)", queue)

    listening.join()
    assert listening.heard == [HEARD]


def test_a_listener_hears_nothing_of_a_send_rolled_back(listening, observer, peer):
    queue = new_queue(observer, "rolled")
    listening.listen(queue)
    wait_for_listener(observer, queue)

    with psycopg.connect(peer[1]) as sender:
        sender.execute("select pgmq.send(%s, '1'::jsonb)", [queue])
        sender.rollback()
    # What is committed after it is heard, and is the first thing that is.
    rows(observer, "select pgmq.send(%s, '2'::jsonb)", queue)

    listening.join()
    assert listening.heard == [HEARD]


def test_a_mixed_case_name_is_heard_on_ours_and_never_on_pgmqs(listening, observer, peer):
    queue = new_queue(observer, "MixedCase")
    listening.listen(queue)
    wait_for_listener(observer, queue)

    rows(observer, "select pgmq.send(%s, '1'::jsonb)", queue)

    if peer[0] == "upstream":
        # Delivered in order: had the send been announced, this would be the second.
        rows(observer, f"select pg_notify('pgmq.q_{queue}.INSERT', '{{\"by\": \"hand\"}}')")
    listening.join()
    assert listening.heard == [HEARD if peer[0] == "ours" else {"by": "hand"}]


def test_a_listener_of_psycopg_gives_up_after_its_timeout(observer, peer):
    listening = Listening("psycopg", peer[1])
    listening.listen(new_queue(observer, "silent"), timeout=0.2)

    listening.join()

    assert listening.heard == []
