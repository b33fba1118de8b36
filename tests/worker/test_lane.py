"""The engine on an in-memory source: concurrency, leases, outcomes and shutdown."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from types import SimpleNamespace

import pytest

from pgsluice import backoff
from pgsluice.errors import ConfigurationError, PayloadError, ServerError
from pgsluice.outcome import Done, Reject, Release
from pgsluice.worker.engine.flow.fair_share import FairShare, Turn
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.handlers.handler import Batch, Limits
from support.runtime import (
    MemorySource,
    running,
    spec_for,
    unreachable,
    until,
    worker_for,
)

QUICK = {"lease_s": 0.3}


class Gauge:
    """Current and maximum number of concurrent handlers."""

    def __init__(self):
        self.now = self.most = 0

    def __enter__(self):
        self.now += 1
        self.most = max(self.most, self.now)

    def __exit__(self, *_):
        self.now -= 1


async def test_concurrency_of_a_handler_is_reached_and_not_exceeded():
    source, gauge = MemorySource(range(60)), Gauge()

    async def handle(_payload):
        with gauge:
            await asyncio.sleep(0.002)

    counts = await worker_for(
        (source, spec_for(handle, limits=Limits(concurrency=7)))
    ).run_until_empty(idle_s=0)

    assert counts["handler"].done == 60
    assert gauge.most == 7


async def test_a_message_that_arrives_while_another_runs_starts_in_a_free_slot():
    begun, going = [], asyncio.Event()

    async def handle(payload):
        begun.append(payload)
        await going.wait()

    source = MemorySource(["first"])
    async with running(worker_for((source, spec_for(handle, limits=Limits(concurrency=3))))):
        for number, payload in enumerate(("second", "third"), 1):
            await until(lambda number=number: len(begun) == number, "the handler to start")
            source.send(payload)
        await until(lambda: begun == ["first", "second", "third"], "the others to start")
        going.set()
        await until(lambda: source.ends() == {"done": 3}, "all to end")


async def test_claimed_messages_start_before_the_next_claim():
    source, order = MemorySource(["first", "second"]), []
    source.trouble = order.append

    async def handle(payload):
        order.append(payload)

    await worker_for(
        (source, spec_for(handle)), options=WorkerOptions(prefetch=10)
    ).run_until_empty(idle_s=0)

    assert order[:5] == ["prepare", "claim", "begin", "first", "second"]


@pytest.mark.parametrize("announces", [True, False])
async def test_a_claim_of_fewer_messages_than_requested_empties_a_source_that_announces_them(
    announces,
):
    source = MemorySource(["first", "second"], announces=announces)

    async def handle(_payload):
        pass

    async with running(worker_for((source, spec_for(handle)), options=WorkerOptions(prefetch=10))):
        await until(lambda: source.ends() == {"done": 2}, "the messages to be done")
        await until(lambda: "wait" in dict(source.calls), "the source to be waited for")
        claims = len(source.called("claim"))
        assert claims == 1 if announces else claims > 1
        source.send("third")
        await until(lambda: source.ends() == {"done": 3}, "the announced message to be done")


async def test_concurrency_of_a_threaded_handler_is_reached_and_not_exceeded():
    source, gauge = MemorySource(range(30)), Gauge()
    lock = threading.Lock()

    def handle(_payload):
        with lock:
            gauge.__enter__()
        time.sleep(0.005)
        with lock:
            gauge.__exit__()

    counts = await worker_for(
        (source, spec_for(handle, limits=Limits(concurrency=4)))
    ).run_until_empty(idle_s=0)

    assert counts["handler"].done == 30
    assert gauge.most == 4


async def test_handlers_share_the_slots_of_the_process_by_weight():
    often, seldom = MemorySource(range(40)), MemorySource(range(40))
    begun, gauge = [], Gauge()

    def handler(name):
        async def handle(_payload):
            begun.append(name)
            with gauge:
                await asyncio.sleep(0.001)

        return handle

    feeds = [
        (often, spec_for(handler("often"), name="often", limits=Limits(weight=3))),
        (seldom, spec_for(handler("seldom"), name="seldom", limits=Limits(weight=1))),
    ]
    options = WorkerOptions(concurrency=2, prefetch=40)
    await worker_for(*feeds, options=options).run_until_empty(idle_s=0)

    assert gauge.most == 2
    assert len(begun) == 80
    # The first slots go to the lanes that claim first.
    assert 7 <= begun[8:20].count("often") <= 10


def test_turns_follow_the_weights_smoothly():
    dealt = []
    turns = FairShare(1)
    for name, weight in (("a", 3), ("b", 1)):
        turns.join(Turn(weight, lambda: len(dealt) < 8, lambda name=name: dealt.append(name)))
    turns.deal()
    while len(dealt) < 8:
        turns.release()
        turns.deal()

    assert "".join(dealt) == "aabaaaba"


async def test_of_slow_handlers_nothing_is_claimed_ahead():
    source = MemorySource(range(50))

    async def handle(_payload):
        await asyncio.sleep(0.3)

    worker = worker_for((source, spec_for(handle, limits=Limits(concurrency=2))))
    async with running(worker):
        await until(lambda: source.ends()["done"] >= 4, "two rounds")

        assert sum(message.visible_s > 0 for message in source.open) <= 2


@pytest.mark.slow
async def test_the_heartbeat_keeps_a_handler_for_five_leases():
    source = MemorySource(["long"])

    async def handle(_payload):
        await asyncio.sleep(5 * QUICK["lease_s"])

    counts = await worker_for((source, spec_for(handle, **QUICK))).run_until_empty(idle_s=0)

    assert counts["handler"].done == 1
    assert source.messages[1].starts == 1
    assert all(qty == 1 for qty in source.called("extend"))


async def test_a_lost_claim_stops_its_handler_and_is_not_acknowledged():
    source, seen = MemorySource(["stolen", "kept"]), []

    async def handle(payload):
        try:
            await asyncio.sleep(0.6)
        except asyncio.CancelledError:
            seen.append(f"{payload} stopped")
            raise
        seen.append(f"{payload} ended")

    worker = worker_for((source, spec_for(handle, **QUICK)))
    async with running(worker):
        await until(lambda: worker.status().handlers[0].running == 2, "both to run")
        source.steal(1)
        await until(lambda: len(seen) == 2, "both to end")
        worker.stop()

    assert seen == ["stolen stopped", "kept ended"]
    assert source.messages[1].outcomes == []
    assert source.forgotten == [1]
    assert (worker.counts()["handler"].lost, worker.counts()["handler"].done) == (1, 1)


async def test_thread_of_a_lost_claim_is_notified_and_its_outcome_dropped():
    source, results = MemorySource(["stolen"]), []

    def handle(_payload, context):
        results.append(context.lost.wait(10))

    worker = worker_for((source, spec_for(handle, **QUICK)))
    async with running(worker):
        await until(lambda: worker.status().handlers[0].running == 1, "the handler to run")
        source.steal(1)
        await until(lambda: worker.status().handlers[0].running == 0, "the worker to end")

    assert results == [True]
    assert source.messages[1].outcomes == []


async def test_prefetched_message_is_not_started_after_its_lease():
    source, starts = MemorySource(range(6)), []

    async def handle(_payload, context):
        starts.append(time.monotonic() < context.delivery.lease_end_s)
        if len(starts) == 1:
            time.sleep(2 * QUICK["lease_s"])  # noqa: ASYNC251 - the whole process stands still

    spec = spec_for(handle, limits=Limits(concurrency=1), **QUICK)
    counts = await worker_for((source, spec), options=WorkerOptions(prefetch=5)).run_until_empty(
        idle_s=0
    )

    assert (all(starts), source.late) == (True, [])
    assert source.ends() == {"done": 6}
    # The first message's claim expired before its settlement, so it may have been redelivered.
    assert {message.starts for message in source.messages.values() if message.payload} == {1}
    assert counts["handler"].released >= 1


@pytest.mark.slow
async def test_a_slow_settlement_loses_nothing():
    source = MemorySource(range(20))

    async def slowly():
        await asyncio.sleep(3 * QUICK["lease_s"])

    source.trouble = lambda call: slowly() if call == "settle" else None

    async def handle(_payload):
        pass

    counts = await worker_for((source, spec_for(handle, **QUICK))).run_until_empty(idle_s=0)

    assert counts["handler"].done == 20
    assert {message.starts for message in source.messages.values()} == {1}


async def test_when_the_server_is_away_until_the_lease_is_over_the_handler_stops():
    source, stopped = MemorySource(["cut off"]), []

    def trouble(call):
        if call != "close" and stopped is not None and worker.status().handlers[0].running:
            raise unreachable()

    async def handle(_payload, context):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            stopped.append(time.monotonic() >= context.delivery.lease_end_s)
            raise

    worker = worker_for((source, spec_for(handle, **QUICK)))
    source.trouble = trouble
    async with running(worker):
        await until(lambda: bool(stopped), "the worker to be stopped")

    assert stopped == [True]
    assert source.messages[1].outcomes == []


async def test_acknowledgements_gather_while_one_is_under_way():
    source = MemorySource(range(300))

    async def slowly():
        await asyncio.sleep(0.05)

    source.trouble = lambda call: slowly() if call == "settle" else None

    async def handle(_payload):
        pass

    await worker_for((source, spec_for(handle))).run_until_empty(idle_s=0)

    assert source.ends()["done"] == 300
    assert len(source.called("settle")) <= 12


async def test_one_message_that_cannot_be_settled_does_not_keep_the_others():
    source = MemorySource(range(20))
    settle = source.settle

    async def settle_but_one(settlements):
        if any(delivery.message_id == 7 for delivery in settlements):
            raise ServerError("something about message 7", sqlstate="XX000")
        return await settle(settlements)

    source.settle = settle_but_one

    async def handle(_payload):
        pass

    worker = worker_for((source, spec_for(handle)))
    async with running(worker):
        await until(lambda: source.ends()["done"] == 19, "the others to be settled")
        worker.stop()

    assert worker.counts()["handler"].lost == 1


@pytest.mark.slow
@pytest.mark.parametrize("call", ["prepare", "claim", "begin", "extend", "settle"])
async def test_a_lost_connection_is_waited_out(call, caplog):
    caplog.set_level(logging.INFO)
    source, failures = MemorySource(range(30)), []

    def trouble(name):
        if name == call and len(failures) < 4:
            failures.append(name)
            raise unreachable()

    source.trouble = trouble

    async def handle(_payload):
        await asyncio.sleep(0.4 if call == "extend" else 0)

    worker = worker_for((source, spec_for(handle, lease_s=1.1 if call == "extend" else 5.0)))
    async with running(worker) as task:
        await until(lambda: len(failures) >= (4 if call != "extend" else 1), "failures")
        await until(lambda: source.ends()["done"] == 30, "all to be done")

        assert not task.done()
        assert worker.status().sources[0].is_reachable

    assert {message.starts for message in source.messages.values()} == {1}
    assert len(caplog.records) <= 2 * 4


def test_a_process_complains_at_most_twice_a_second_and_counts_the_rest(caplog, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: 7.0)
    monkeypatch.setattr(backoff, "time", clock)
    complaints = backoff.Complaints(logging.getLogger("test"))

    for number in range(50):
        complaints.log(logging.WARNING, "number %d", number)
    clock.monotonic = lambda: 8.0
    complaints.log(logging.WARNING, "number %d", 50)

    assert [record.getMessage() for record in caplog.records] == [
        "number 0",
        "number 1",
        "number 50 (48 lines like this were left out)",
    ]


async def test_stop_lets_end_what_runs_and_gives_back_the_rest_uncounted_in_one_call():
    source, ended = MemorySource(range(12)), []
    going = asyncio.Event()

    async def handle(payload):
        await going.wait()
        ended.append(payload)

    worker = worker_for(
        (source, spec_for(handle, limits=Limits(concurrency=2))), options=WorkerOptions(prefetch=5)
    )
    async with running(worker) as task:
        await until(lambda: worker.status().handlers[0].waiting == 5, "some to wait")
        claims = len(source.called("claim"))
        worker.stop()
        await until(lambda: source.called("settle") == [5], "the other messages to be released")
        assert worker.status().state == "stopping"
        assert not task.done()
        going.set()
        await task

    assert ended == [0, 1]
    assert len(source.called("claim")) == claims
    assert source.ends() == {"done": 2, None: 10}
    assert all(
        message.starts == 0 and message.visible_s < time.monotonic() for message in source.open
    )
    assert (worker.counts()["handler"].done, worker.counts()["handler"].released) == (2, 5)
    assert worker.status().state == "stopped"


async def test_stop_ends_although_the_server_is_away_when_the_claims_are_over():
    source = MemorySource(range(3))

    def trouble(call):
        if call in ("settle", "extend"):
            raise unreachable()

    source.trouble = trouble

    async def handle(_payload):
        pass

    worker = worker_for((source, spec_for(handle, **QUICK)))
    async with running(worker) as task:
        await until(lambda: bool(source.called("settle")), "a settlement to fail")
        worker.stop()
        await asyncio.wait_for(task, 10)

    assert worker.counts()["handler"].lost == 3


async def test_stalled_process_is_logged(caplog):
    source = MemorySource(["x"])

    async def handle(_payload):
        time.sleep(QUICK["lease_s"])  # noqa: ASYNC251 - what it is about
        await asyncio.sleep(0.1)

    await worker_for((source, spec_for(handle, **QUICK))).run_until_empty(idle_s=0)

    assert "event loop blocked" in caplog.text
    assert source.messages[1].starts == 1


async def test_messages_claimed_during_shutdown_are_released():
    source = MemorySource(range(3))
    requested, going = asyncio.Event(), asyncio.Event()

    async def slowly():
        requested.set()
        await going.wait()

    source.trouble = lambda call: slowly() if call == "claim" else None

    async def handle(_payload):
        raise AssertionError("no handler starts after stop")

    worker = worker_for((source, spec_for(handle)))
    async with running(worker) as task:
        await requested.wait()
        worker.stop()
        going.set()
        await task

    assert [type(outcome) for m in source.open for outcome, _ in m.outcomes] == [Release] * 3


async def test_stop_now_cancels_what_runs_and_gives_it_back_uncounted():
    source = MemorySource(range(3))

    async def handle(_payload):
        await asyncio.sleep(60)

    worker = worker_for((source, spec_for(handle)))
    async with running(worker) as task:
        await until(lambda: worker.status().handlers[0].running == 3, "all to run")
        worker.stop()
        worker.stop(now=True)
        await asyncio.wait_for(task, 5)

    assert worker.counts()["handler"].released == 3
    assert all(message.starts - message.uncounted == 0 for message in source.open)


async def test_stop_now_gives_back_what_has_a_task_that_did_not_begin_yet():
    source = MemorySource(range(3))

    async def handle(_payload):
        raise AssertionError("no handler starts after stop")

    worker = worker_for((source, spec_for(handle)))

    def trouble(call):
        if (
            call == "begin"
        ):  # the tasks are created after this, and start after callbacks of call_soon
            asyncio.get_running_loop().call_soon(lambda: worker.stop(now=True))

    source.trouble = trouble
    await asyncio.wait_for(worker.run(), 5)

    assert worker.counts()["handler"].released == 3


async def test_hard_stop_does_not_release_messages_whose_thread_is_running():
    source, going = MemorySource(range(1)), threading.Event()
    worker = worker_for((source, spec_for(lambda _payload: going.wait(20))))

    async with running(worker) as task:
        await until(lambda: worker.status().handlers[0].running == 1, "the handler to run")
        worker.stop(now=True)
        await asyncio.wait_for(task, 5)
    going.set()

    assert source.messages[1].outcomes == []


async def test_a_worker_that_is_cancelled_stops_at_once():
    source = MemorySource(range(2))

    async def handle(_payload):
        await asyncio.sleep(60)

    worker = worker_for((source, spec_for(handle)))
    task = asyncio.create_task(worker.run())
    await until(
        lambda: bool(worker.status().handlers) and worker.status().handlers[0].running == 2, "run"
    )
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert worker.counts()["handler"].released == 2


async def test_until_empty_also_handles_what_handlers_send():
    first, second = MemorySource(range(5)), MemorySource()

    async def forward(payload):
        await asyncio.sleep(0.01)
        second.send(payload)

    async def take(_payload):
        await asyncio.sleep(0.01)

    worker = worker_for((first, spec_for(forward, name="a")), (second, spec_for(take, name="b")))
    counts = await worker.run_until_empty(idle_s=0)

    assert (counts["a"].done, counts["b"].done) == (5, 5)


async def test_messages_of_one_key_run_one_after_the_other_and_others_beside_them():
    source, gauge, order = MemorySource(), {"x": Gauge(), "all": Gauge()}, []
    for number in range(4):
        source.send(number, key="x")
        source.send(number)

    async def handle(payload, context):
        with gauge["all"], gauge["x"] if context.key else gauge["all"]:
            if context.key:
                order.append(payload)
            await asyncio.sleep(0.01)

    await worker_for((source, spec_for(handle))).run_until_empty(idle_s=0)

    assert order == [0, 1, 2, 3]
    assert gauge["x"].most == 1
    assert gauge["all"].most > 2
    assert source.ends()["done"] == 8


async def test_messages_that_may_kill_their_process_run_one_after_the_other():
    source, gauge, order = MemorySource(range(6)), Gauge(), []
    claim = source.claim

    async def claim_suspects(qty, lease_s):
        deliveries = await claim(qty, lease_s)
        for delivery in deliveries:
            delivery.is_suspect = delivery.message_id <= 3
        return deliveries

    source.claim = claim_suspects

    async def handle(payload):
        if payload >= 3:
            return
        with gauge:
            order.append(payload)
            await asyncio.sleep(0.01)

    await worker_for((source, spec_for(handle))).run_until_empty(idle_s=0)

    assert (order, gauge.most) == ([0, 1, 2], 1)
    assert source.called("begin")[0] == 4  # the others are not recorded as started
    assert source.ends()["done"] == 6


class TestBatches:
    async def test_a_batch_is_handled_when_it_is_full_or_its_first_message_waited_enough(self):
        source, sizes = MemorySource(range(25)), []

        async def handle(payloads):
            sizes.append(len(payloads))

        await worker_for((source, spec_for(handle, batch=Batch(10, wait_s=0.1)))).run_until_empty(
            idle_s=0.3
        )

        assert sizes == [10, 10, 5]
        assert source.ends()["done"] == 25

    async def test_suspects_which_run_one_after_the_other_do_not_wait_for_a_batch(self):
        source, sizes = MemorySource(range(5)), []
        claim = source.claim

        async def claim_suspects(qty, lease_s):
            deliveries = await claim(qty, lease_s)
            for delivery in deliveries:
                delivery.is_suspect = True
            return deliveries

        source.claim = claim_suspects

        async def handle(payloads):
            sizes.append(len(payloads))

        running = worker_for(
            (source, spec_for(handle, batch=Batch(10, wait_s=30)))
        ).run_until_empty(idle_s=0)
        await asyncio.wait_for(running, 20)

        assert sizes == [1] * 5
        assert source.ends()["done"] == 5

    async def test_each_message_of_a_batch_has_its_own_answer(self):
        source = MemorySource(["done", "reject", "misfit", "none"])

        def decode(payload):
            if payload == "misfit":
                raise PayloadError("no order")
            return payload.upper()

        seen = []

        async def handle(payloads, contexts):
            seen.append((payloads, [context.message_id for context in contexts]))
            return [Done(), Reject("bad"), None]

        worker = worker_for((source, spec_for(handle, batch=Batch(4, 0.05), decode=decode)))
        await worker.run_until_empty(idle_s=0)

        assert seen == [(["DONE", "REJECT", "NONE"], [1, 2, 4])]
        assert [message.end for message in source.messages.values()] == [
            "done",
            "dead",
            "dead",
            "done",
        ]
        assert source.messages[3].outcomes[0][1].message == "no order"

    @pytest.mark.parametrize("wrong", [ValueError("all"), [Done()], SystemExit(3)])
    async def test_failed_batch_fails_each_message(self, wrong):
        source = MemorySource(range(3), max_attempts=1)

        def handle(_payloads):
            if isinstance(wrong, BaseException):
                raise wrong
            return wrong

        await worker_for((source, spec_for(handle, batch=Batch(3, 0.05)))).run_until_empty(idle_s=0)

        assert source.ends() == {"dead": 3}


async def test_the_status_tells_what_runs_and_what_went_wrong():
    source = MemorySource(["bad", "long"])
    going = asyncio.Event()

    async def handle(payload):
        if payload == "bad":
            raise KeyError("secret payload")
        await going.wait()

    worker = worker_for((source, spec_for(handle)))
    async with running(worker):
        await until(lambda: source.ends()["dead"] == 1, "the bad message to be dead-lettered")

        status = worker.status()

        assert status.state == "running"
        assert (status.handlers[0].running, status.handlers[0].last_error) == (1, "KeyError")
        assert status.handlers[0].counts.by_error_type == {"KeyError": 3}
        assert "secret" not in repr(status)


def test_a_worker_needs_handlers_that_are_there():
    async def handle(_payload):
        pass

    app = SimpleNamespace(
        name="shop", dsn=None, tracing=False, handlers={"handler": spec_for(handle)}, middlewares=[]
    )
    from pgsluice.worker.engine.flow.worker import Worker

    with pytest.raises(ConfigurationError, match="no handler named mail; available: handler"):
        Worker(app, handlers=["mail"])
    with pytest.raises(ConfigurationError, match="no handler for queue or log mail; available: "):
        Worker(app, queues=["mail"])
