"""Calls in the caller's psycopg pipeline: each returns its result or raises its error."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from pgsluice.errors import LogNotFoundError, QueueNotFoundError
from support import on_functions_and_tables, value


@contextmanager
def pipeline(clients):
    """Psycopg's pipeline mode on a connection, sync or async."""
    inner = clients.source._inner.pipeline()
    if hasattr(inner, "__enter__"):
        with inner:
            yield
        return
    clients.run(inner.__aenter__())
    try:
        yield
    finally:
        clients.run(inner.__aexit__(None, None, None))


@pytest.fixture(params=[True, False], ids=["autocommit", "transaction"])
def connected(request, make, shared_url):
    clients = make.connection(shared_url, autocommit=request.param)
    if request.param:
        return clients
    clients.source.execute("select 1")
    return clients


@on_functions_and_tables
def test_messages_are_sent_claimed_and_acknowledged(connected, queue_name):
    other = f"{queue_name}_other"

    with pipeline(connected):
        connected.queue.create(other)
        assert connected.queue.send_batch(other, ["a", "b"]) == [1, 2]
        claimed = connected.queue.read(other, 60, 2)
        assert [message.message for message in claimed] == ["a", "b"]
        assert connected.queue.archive(other, 1) is True
        assert connected.queue.purge_queue(other) == 1
        assert connected.queue.drop_queue(other) is True


def test_events_are_inserted_claimed_and_settled(connected, log_name, observer):
    group = connected.share_group(log_name, "g")
    observer.execute("select sluice.create_group(%s, 'g')", [log_name])
    ev_id = value(observer, "select pgq.insert_event(%s, 't', 'x')", log_name)

    with pipeline(connected):
        assert connected.log.insert_event(log_name, "t", "x") == ev_id + 1
        event, *_ = group.claim(5)
        assert event.ev_id == ev_id
        assert group.accept(event) == 1
        assert group.accept(event) == 0
        assert connected.log.list_groups(log_name)[0].group_name == group.info().group_name == "g"


@on_functions_and_tables
def test_an_error_has_its_class_and_its_name(make, shared_url, queue_name, mode):
    clients = make.connection(shared_url, autocommit=True)

    with pipeline(clients):
        with pytest.raises(QueueNotFoundError, match="'nope'"):
            clients.queue.send("nope", 1)
        assert clients.queue.send(queue_name, 1) == 1
        if mode == "functions":
            with pytest.raises(LogNotFoundError, match="'nope'"):
                clients.share_group("nope", "g").claim()
        assert len(clients.queue.read(queue_name, 60)) == 1
