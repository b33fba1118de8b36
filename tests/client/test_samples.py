"""Methods for figures of queues now and over time, sync and async, on a pool and on a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def test_states_and_samples_of_a_queue_are_returned(clients, queue_name, observer):
    clients.queue.send_batch(queue_name, [1, 2, 3])
    clients.queue.read(queue_name, 600)
    observer.execute("select setval('sluice.sample_turn', 1)")

    states = {state.queue_name: state for state in clients.operations.list_queue_states()}
    state = states[queue_name]
    assert (state.length, state.ready, state.in_flight, state.sent) == (3, 2, 1, 3)
    assert state.oldest_ready_s >= 0
    assert clients.operations.take_samples() > 0
    (sample,) = clients.operations.list_samples(
        "queue", queue_name, since=datetime.now(UTC) - timedelta(minutes=1), every=timedelta(0)
    )
    assert (sample.length, sample.ready, sample.in_flight, sample.dead) == (3, 2, 1, 0)
    assert sample.lag_events is None


def test_states_are_paged_by_name(clients, queue_name):
    assert queue_name not in {
        state.queue_name
        for state in clients.operations.list_queue_states(after_name=queue_name, qty=1)
    }


def test_newest_samples_are_returned(clients, queue_name, observer):
    clients.queue.send_batch(queue_name, [1, 2])
    observer.execute("select setval('sluice.sample_turn', 1)")
    clients.operations.take_samples()

    found = {sample.name: sample for sample in clients.operations.list_newest_samples("queue")}

    assert found[queue_name].length == 2
