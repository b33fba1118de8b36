"""Methods for FIFO groups, sync and async, on a pool and on a connection."""

from __future__ import annotations

import pytest

from pgsluice.client.calls import groups
from pgsluice.errors import ArgumentError, QueueNotFoundError

READERS = ("read_grouped", "read_grouped_rr", "read_grouped_head")
TOO_MUCH = 2**31


@pytest.fixture(params=[False, True], ids=["no index", "index"])
def grouped(request, clients, queue_name):
    """Messages 1 to 6 of groups a, b, a, c, b, a."""
    if request.param:
        assert clients.operations.create_fifo_index(queue_name) is None
    clients.queue.send_batch(
        queue_name, list("123456"), headers=[{"x-pgmq-group": g} for g in "abacba"]
    )
    return queue_name


@pytest.mark.parametrize(
    ("reader", "wanted"),
    [
        ("read_grouped", [1, 2, 3, 6]),
        ("read_grouped_rr", [1, 2, 4, 3]),
        ("read_grouped_head", [1, 2, 4]),
    ],
)
@pytest.mark.parametrize("suffix", ["", "_with_poll"])
def test_the_readers_return_messages_in_their_order(clients, grouped, reader, suffix, wanted):
    found = getattr(clients.queue, reader + suffix)(grouped, 30, 4)

    assert [message.msg_id for message in found] == wanted
    assert [message.message for message in found] == [str(msg_id) for msg_id in wanted]
    assert {message.read_ct for message in found} == {1}
    assert found[0].headers == {"x-pgmq-group": "a"}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_poll_returns_nothing_when_its_time_is_over(clients, queue_name, reader):
    poll = getattr(clients.queue, f"{reader}_with_poll")

    assert poll(queue_name, 30, max_poll_seconds=1, poll_interval_ms=50) == []


def test_every_queue_gets_its_indexes(clients, queue_name, observer):
    assert clients.operations.create_fifo_indexes_all() is None

    found = observer.execute("select pgmq._has_fifo_index('q_' || %s)", [queue_name]).fetchall()
    assert found == [(True,)]


@pytest.mark.parametrize("method", [*READERS, *[f"{r}_with_poll" for r in READERS]])
def test_a_queue_that_does_not_exist_is_named(clients, method):
    with pytest.raises(QueueNotFoundError, match="absent"):
        getattr(clients.queue, method)("absent", 30)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: groups.read_grouped("q", -1, 1), f"vt is -1; use 0 to {TOO_MUCH - 1}"),
        (lambda: groups.read_grouped_rr("q", 30, 0), "qty is 0; use 1 to"),
        (lambda: groups.read_grouped_head("q", 30, True), "qty is True; use a whole number"),
        (
            lambda: groups.read_grouped_with_poll(
                "q", 30, 1, max_poll_seconds=0, poll_interval_ms=1
            ),
            "max_poll_seconds is 0; use 1 to",
        ),
        (
            lambda: groups.read_grouped_rr_with_poll(
                "q", 30, 1, max_poll_seconds=1, poll_interval_ms=0
            ),
            "poll_interval_ms is 0; use 1 to",
        ),
        (
            lambda: groups.read_grouped_head_with_poll(
                "q", 30, TOO_MUCH, max_poll_seconds=1, poll_interval_ms=1
            ),
            f"qty is {TOO_MUCH}; use 1 to",
        ),
    ],
)
def test_arguments_out_of_range_are_refused_before_anything_is_sent(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()
