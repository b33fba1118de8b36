"""Each handler call has one of the four outcomes, in every kind of execution."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from dataclasses import replace

import pytest

from pgsluice.errors import ConfigurationError, PayloadError
from pgsluice.outcome import Done, Reject, Release, Retry
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.handlers.handler import Limits
from support.runtime import MemorySource, running, spec_for, until, worker_for
from worker.runtime_handlers import do, each, unimportable_spec

BOOM = ValueError("boom \x00 \ud800")


class OddError(BaseException):
    """A BaseException whose `str()` fails."""

    def __str__(self):
        raise RuntimeError("no text")


async def outcomes_of(spec, payloads=("x",), **options):
    """Return the outcome of each message with its reason."""
    source = MemorySource(payloads, max_attempts=1)

    def is_released(message):
        return bool(message.outcomes) and isinstance(message.outcomes[-1][0], Release)

    worker = worker_for((source, spec), **options)
    async with running(worker):
        await until(
            lambda: all(m.end or is_released(m) for m in source.messages.values()),
            "an outcome of each message",
            60,
        )
        worker.stop()
    return [message.outcomes[-1] for message in source.messages.values()]


def kind_of(outcome):
    return type(outcome[0]), outcome[1] and outcome[1].error_type


WAYS = [
    pytest.param(None, (Done, None), id="nothing"),
    pytest.param("something", (Done, None), id="something else"),
    pytest.param(Done(), (Done, None), id="done"),
    pytest.param(Reject, (Reject, "Reject"), id="a class of outcomes"),
    pytest.param(Reject("bad"), (Reject, "Reject"), id="reject"),
    pytest.param(Retry(3), (Retry, "Retry"), id="retry after"),
    pytest.param(Release(60), (Release, None), id="release"),
    pytest.param(BOOM, (Retry, "ValueError"), id="an exception"),
    pytest.param(SystemExit(1), (Retry, "SystemExit"), id="exit"),
    pytest.param(KeyboardInterrupt(), (Retry, "KeyboardInterrupt"), id="interrupt"),
    pytest.param(asyncio.CancelledError(), (Retry, "CancelledError"), id="cancelled by itself"),
    pytest.param(StopIteration(), (Retry, "RuntimeError"), id="stop iteration"),
    pytest.param(TimeoutError(), (Retry, "TimeoutError"), id="a timeout of its own"),
    pytest.param(OddError(), (Retry, "OddError"), id="no exception and no text"),
]


@pytest.mark.parametrize("is_async", [True, False], ids=["loop", "thread"])
@pytest.mark.parametrize(("way", "meaning"), WAYS)
async def test_return_value_or_exception_becomes_one_of_four_outcomes(way, meaning, is_async):
    def handle(payload):
        if isinstance(way, BaseException) and payload == "raise":
            raise way
        return way

    async def handle_async(payload):
        return handle(payload)

    function = handle_async if is_async else handle
    raised, returned = await outcomes_of(spec_for(function, timeout_s=30), ["raise", "return"])

    assert kind_of(raised) == meaning
    if raised[1]:
        raised[1].trace and raised[1].trace.encode()
        assert "\x00" not in raised[1].message + (raised[1].trace or "")
    if not isinstance(way, BaseException) or isinstance(way, Done | Reject | Retry | Release):
        assert kind_of(returned) == meaning


async def test_exceptions_are_tried_again_or_given_up_as_the_handler_says():
    async def handle(payload):
        raise {"lookup": KeyError, "value": ValueError, "os": OSError}[payload]("x")

    spec = spec_for(handle, retry_on=(LookupError, ValueError), give_up_on=(KeyError,))
    outcomes = await outcomes_of(spec, ["lookup", "value", "os"])

    assert [type(outcome) for outcome, _ in outcomes] == [Reject, Retry, Reject]
    assert [failure.error_type for _, failure in outcomes] == ["KeyError", "ValueError", "OSError"]


async def test_a_payload_that_does_not_fit_is_rejected_with_the_reason():
    def decode(_payload):
        raise PayloadError("order.id is not a number")

    async def handle(_payload):
        raise AssertionError("not called")

    ((outcome, failure),) = await outcomes_of(spec_for(handle, decode=decode))

    assert outcome == Reject("payload")
    assert (failure.error_type, failure.message) == ("PayloadError", "order.id is not a number")


async def test_middleware_with_close_is_closed_in_each_thread_of_handlers_and_in_the_loop():
    class InThread:
        def __init__(self):
            self.called, self.closed = set(), []

        def __call__(self, call, payload, context):
            self.called.add(threading.current_thread())
            return call(payload, context)

        def close(self):
            self.closed.append(threading.current_thread())

    class InLoop(InThread):
        async def __call__(self, call, payload, context):
            self.called.add(threading.current_thread())
            return await call(payload, context)

        async def close(self):
            super().close()

    together = threading.Barrier(3, timeout=30)

    def handle(payload):
        together.wait()

    in_thread, in_loop = InThread(), InLoop()
    spec = spec_for(handle, limits=Limits(concurrency=3))
    await outcomes_of(spec, range(3), middlewares=[in_loop, in_thread])

    assert len(in_thread.closed) == 3
    assert set(in_thread.closed) == in_thread.called
    for thread in in_thread.closed:
        thread.join(30)
        assert not thread.is_alive()
    assert in_loop.closed == [threading.current_thread()]


async def test_middleware_is_around_the_handler_and_its_answer_counts():
    seen = []

    async def outer(call, payload, context):
        seen.append("outer")
        try:
            return await call(payload, context)
        except KeyError:
            return Reject("middleware says")

    async def inner(call, payload, context):
        seen.append("inner")
        return await call(payload + 1, context)

    def handle(payload, context):
        seen.append((payload, context.message_id, threading.current_thread().name[:8]))
        raise KeyError

    ((outcome, _),) = await outcomes_of(spec_for(handle), [1], middlewares=[outer, inner])

    assert seen == ["outer", "inner", (2, 1, "pgsluice")]
    assert outcome == Reject("middleware says")


async def test_coroutine_never_awaited_is_a_failure():
    async def real(_payload):
        pass

    def handle(payload):
        return real(payload)

    ((outcome, failure),) = await outcomes_of(spec_for(handle))

    assert (type(outcome), failure.error_type) == (Retry, "HandlerError")


class TestTimeouts:
    async def test_an_async_handler_is_cancelled_at_its_timeout(self):
        async def handle(_payload):
            await asyncio.sleep(60)

        ((outcome, failure),) = await outcomes_of(spec_for(handle, timeout_s=0.05))

        assert type(outcome) is Retry
        assert (failure.error_type, failure.message) == (
            "timeout",
            "the handler exceeded its timeout of 0.05 s",
        )

    async def test_a_timeout_is_a_timeout_error_to_the_handlers_options(self):
        async def handle(_payload):
            await asyncio.sleep(60)

        ((outcome, failure),) = await outcomes_of(
            spec_for(handle, timeout_s=0.05, give_up_on=(TimeoutError,))
        )

        assert (type(outcome), failure.error_type) == (Reject, "timeout")

    @pytest.mark.slow
    async def test_a_thread_that_hangs_keeps_its_slot_and_its_message_until_it_returns(
        self, caplog
    ):
        source, going = MemorySource(["hang", *range(10)], max_attempts=1), threading.Event()

        def handle(payload, context):
            if payload == "hang":
                going.wait(30)
                assert context.lost.is_set()

        options = {"timeout_s": 0.1, "lease_s": 1.0, "limits": Limits(concurrency=2)}
        worker = worker_for((source, spec_for(handle, **options)))
        async with running(worker):
            await until(lambda: source.ends() == {None: 1, "done": 10}, "the others to end")
            await until(lambda: worker.status().hung_threads == 1, "the thread to hang")
            assert not worker.status().wants_replacement
            renewed = len(source.called("extend")) + 3
            await until(lambda: len(source.called("extend")) > renewed, "its lease to be renewed")
            assert source.messages[1].starts == 1
            going.set()
            await until(lambda: worker.status().hung_threads == 0, "the thread to return")
            await until(
                lambda: source.ends() == {"dead": 1, "done": 10}, "the message to be settled"
            )

        assert source.messages[1].outcomes[-1][1].error_type == "timeout"
        assert "hung=1 threads=2" in caplog.text

    @pytest.mark.slow
    async def test_when_all_threads_hang_the_process_asks_to_be_replaced(self):
        source, going = MemorySource(range(5), max_attempts=1), threading.Event()
        spec = spec_for(
            lambda _payload: going.wait(30), timeout_s=0.1, limits=Limits(concurrency=2)
        )
        worker = worker_for((source, spec))

        await asyncio.wait_for(worker.run(), 10)
        going.set()

        assert worker.status().wants_replacement
        # The others were not started.
        assert source.ends() == {"dead": 2, None: 3}
        assert [message.starts for message in source.open] == [0, 0, 0]

    @pytest.mark.slow
    async def test_a_worker_that_stops_does_not_wait_for_a_thread_that_hangs(self):
        source, going = MemorySource(["hang", "fine"]), threading.Event()
        spec = spec_for(
            lambda payload: payload == "hang" and going.wait(30),
            timeout_s=0.1,
            limits=Limits(concurrency=2),
        )
        worker = worker_for((source, spec))
        async with running(worker):
            await until(lambda: worker.status().hung_threads == 1, "the thread to hang")
            worker.stop()
            await until(lambda: worker.status().state == "stopped", "the worker to stop")
        going.set()

        assert source.ends() == {None: 1, "done": 1}
        message = source.messages[1]
        assert message.outcomes[-1][1].error_type == "timeout"
        # The thread may still run: the message is retried after a lease at the earliest.
        assert spec.lease_s - 2 < message.visible_s - time.monotonic() <= spec.lease_s


class TestProcesses:
    @pytest.mark.slow
    async def test_however_a_process_ends_it_is_the_failure_of_one_message_and_others_flow(self):
        options = WorkerOptions(max_memory_mb=2_000)
        payloads = ["raise", "exit", "sys.exit", "segfault", "kill", "memory", "misfit", *range(10)]
        spec = replace(do.spec, limits=Limits(concurrency=2))

        outcomes = await outcomes_of(spec, payloads, options=options)

        failures = [failure for _, failure in outcomes[:7]]
        assert [(failure.error_type, failure.message) for failure in failures] == [
            ("KeyError", "'raised'"),
            ("process died", "exit code 3"),
            ("SystemExit", "4"),
            ("process died", "signal SIGSEGV"),
            ("process died", "signal SIGKILL, possibly by the OOM killer"),
            ("MemoryError", ""),
            ("PayloadError", "no order"),
        ]
        assert "in do" in failures[0].trace
        assert [type(outcome) for outcome, _ in outcomes[:7]] == [Retry] * 6 + [Reject]
        assert [outcome for outcome, _ in outcomes[7:]] == [Done()] * 10

    async def test_hanging_handler_process_is_killed_at_its_timeout(self, tmp_path):
        pid_path = tmp_path / "pid"
        spec = replace(do.spec, timeout_s=1.0, limits=Limits(concurrency=1))

        outcomes = await outcomes_of(spec, [{"hang": str(pid_path)}, "fine", "reject"])

        assert [kind_of(each) for each in outcomes] == [
            (Retry, "timeout"),
            (Done, None),
            (Reject, "Reject"),
        ]
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid_path.read_text()), 0)

    async def test_a_process_is_used_again_and_leaves_signals_to_the_worker(self, tmp_path):
        path = str(tmp_path / "pids")
        spec = replace(do.spec, limits=Limits(concurrency=1))

        outcomes = await outcomes_of(
            spec, ["attempt", {"pid": path}, "signals", {"pid": path}, "retry", "release"]
        )

        assert [type(outcome) for outcome, _ in outcomes] == [Done] * 4 + [Retry, Release]
        first, second = (tmp_path / "pids").read_text().split()
        assert first == second != str(os.getpid())

    @pytest.mark.slow
    @pytest.mark.parametrize("handler", [do, each], ids=["one", "batch"])
    async def test_an_outcome_that_cannot_be_pickled_is_a_failure_and_the_process_lives(
        self, handler, tmp_path
    ):
        path = str(tmp_path / "pids")
        spec = replace(handler.spec, limits=Limits(concurrency=1))
        local = [{"local": kind, "raise": False} for kind in ("Done", "Retry", "Release")]
        odd = [*local, "two arguments", "only in the process"]
        if handler is do:
            odd.append({"local": "Reject", "raise": True})

        outcomes = await outcomes_of(spec, [{"pid": path}, *odd, "reject", {"pid": path}])

        assert len({*(tmp_path / "pids").read_text().split()}) == 1
        assert [type(outcome) for outcome, _ in outcomes] == [
            Done,
            *[Retry] * len(odd),
            Reject,
            Done,
        ]
        failures = [failure for _, failure in outcomes[1 : 1 + len(odd)]]
        assert {failure.error_type for failure in failures} == {"HandlerError"}
        texts = [failure.message for failure in failures]
        assert all("define its class at module level" in text for text in texts)
        for text, outcome, reason in (
            (texts[0], "the outcome Local: ", "Can't pickle local object"),
            (texts[1], "the outcome Local: bad ", "Can't pickle local object"),
            (texts[2], "the outcome Local: ", "Can't pickle local object"),
            (texts[3], "the outcome TwoArguments: very bad ", "TypeError: "),
            (texts[4], "the outcome OnlyInTheProcess: bad ", "LookupError: no such class here"),
        ):
            assert outcome in text
            assert reason in text

    @pytest.mark.slow
    async def test_an_exception_that_cannot_be_pickled_keeps_its_class_and_text(self, tmp_path):
        path = str(tmp_path / "pids")
        spec = replace(do.spec, limits=Limits(concurrency=1))
        odd = ["local exception", "exception of two arguments"]

        outcomes = await outcomes_of(spec, [{"pid": path}, *odd, {"pid": path}])

        assert len({*(tmp_path / "pids").read_text().split()}) == 1
        first, second = (failure for _, failure in outcomes[1:3])
        assert (first.error_type, first.message[:10]) == ("LocalError", "('raised',")
        assert (second.error_type, second.message) == ("TwoArgumentsError", "very bad")

    @pytest.mark.slow
    async def test_a_payload_that_cannot_be_pickled_is_a_failure_and_the_process_lives(
        self, tmp_path
    ):
        path = str(tmp_path / "pids")
        spec = replace(do.spec, limits=Limits(concurrency=1))

        async def replace_payload(call, payload, context):
            return await call(threading.Lock() if payload == "lock" else payload, context)

        outcomes = await outcomes_of(
            spec, [{"pid": path}, "lock", {"pid": path}], middlewares=[replace_payload]
        )

        assert len({*(tmp_path / "pids").read_text().split()}) == 1
        ((outcome, failure),) = outcomes[1:2]
        assert (type(outcome), failure.error_type) == (Retry, "HandlerError")
        assert "cannot be pickled and sent to the handler's process" in failure.message
        assert "cannot pickle '_thread.lock' object" in failure.message

    @pytest.mark.slow
    async def test_a_batch_in_a_process_has_an_answer_for_each(self):
        outcomes = await outcomes_of(each.spec, ["fine", "reject", "misfit", "release"])

        assert [type(outcome) for outcome, _ in outcomes] == [Done, Reject, Reject, Release]

    @pytest.mark.slow
    async def test_a_handler_that_another_process_does_not_find_is_refused_at_the_start(self):
        source = MemorySource(["x"])

        with pytest.raises(ConfigurationError, match="define the handler at module level"):
            await worker_for((source, unimportable_spec)).run()

        assert source.messages[1].fence == 0


async def test_failures_are_logged_without_payloads(caplog):
    caplog.set_level(logging.INFO)

    async def handle(payload):
        raise ValueError(payload)

    await outcomes_of(spec_for(handle), ["secret"])

    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


def test_no_op_handlers_a_second(capsys):
    """A measurement without a limit, as the machine may be busy."""

    async def handle(_payload):
        pass

    async def run():
        source = MemorySource(range(2_000))
        began_s = time.process_time()
        await worker_for((source, spec_for(handle))).run_until_empty(idle_s=0)
        return 2_000 / (time.process_time() - began_s)

    rate = asyncio.run(run())
    with capsys.disabled():
        print(f"\nno-op handlers: {rate:,.0f} messages per second of CPU")


async def test_calls_that_did_not_start_or_were_cancelled_are_not_timed():
    began = asyncio.Event()

    async def handle(payload):
        if payload == "wait":
            began.set()
            await asyncio.sleep(60)

    def decode(payload):
        if payload == "bad":
            raise PayloadError("bad")
        return payload

    source = MemorySource(("bad", "good", "wait"))
    worker = worker_for((source, spec_for(handle, decode=decode)))
    async with running(worker):
        await until(
            lambda: began.is_set() and source.ends() == {"done": 1, "dead": 1, None: 1}, "the calls"
        )
    (handler,) = worker.status().handlers

    assert sum(handler.call_counts) == 1


async def test_call_that_exceeds_its_timeout_is_timed_with_its_timeout():
    async def handle(_payload):
        await asyncio.sleep(60)

    source = MemorySource(("x",), max_attempts=1)
    worker = worker_for((source, spec_for(handle, timeout_s=0.05)))
    async with running(worker):
        await until(lambda: source.messages[1].end, "the outcome")
    (handler,) = worker.status().handlers

    assert sum(handler.call_counts) == 1
    assert 0.05 <= handler.call_sum_s < 5
