"""Backoff: retries of transient errors, delays, deadlines and references to the last error."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref

import pytest

from pgsluice.backoff import Backoff, jittered, next_delay_s
from pgsluice.errors import (
    ArgumentError,
    ConnectionFailedError,
    GroupNotFoundError,
    RetryableError,
    ServerError,
)


def failing(times: int, error: Exception):
    """Return a step that raises an error the given times, then returns its number of calls."""
    calls = []

    def step() -> int:
        calls.append(1)
        if len(calls) <= times:
            raise error
        return len(calls)

    return step


def test_delay_doubles_with_each_failure_up_to_the_cap():
    assert [next_delay_s(failures) for failures in range(4)] == [0.0, 0.1, 0.2, 0.4]
    assert next_delay_s(5000) == 30.0
    assert next_delay_s(3, 1.0, 60.0) == 4.0


def test_jitter_leaves_half_of_a_delay_or_more():
    delays = {jittered(10.0) for _ in range(50)}

    assert len(delays) > 1
    assert all(5.0 <= delay_s <= 10.0 for delay_s in delays)


@pytest.mark.parametrize("error", [ConnectionFailedError("gone"), RetryableError("deadlock")])
def test_retry_calls_again_after_a_transient_error(error):
    assert Backoff().retry(failing(2, error)) == 3


def test_retry_raises_another_error_at_once():
    with pytest.raises(ArgumentError):
        Backoff().retry(failing(1, ArgumentError("negative")))


def test_retry_raises_instead_of_waiting_past_the_deadline(caplog):
    backoff = Backoff("step", logging.getLogger("test").log, deadline_s=0.0)

    with pytest.raises(ConnectionFailedError, match="gone"):
        backoff.retry(failing(1, ConnectionFailedError("gone")))

    assert not caplog.records


async def test_async_retry_reports_each_failure_before_its_wait():
    reported = []

    async def step() -> int:
        return sync()

    sync = failing(2, ConnectionFailedError("gone"))
    result = await Backoff().async_retry(step, on_failure=lambda: reported.append(1))

    assert (result, len(reported)) == (3, 2)


def test_stop_ends_the_wait():
    stop, began_s = threading.Event(), time.monotonic()
    backoff = Backoff(delay_max_s=60.0)
    backoff.failures = 20
    stop.set()

    with backoff.attempt(stop):
        raise ConnectionFailedError("gone")

    assert time.monotonic() - began_s < 10.0


@pytest.mark.parametrize("ends", ["at the deadline", "by cancellation"])
def test_failed_retry_is_freed_without_a_collection(ends):
    """The traceback of the last error must not keep a Taskiq message alive."""

    class Held: ...

    async def settle(claim: Held) -> None:
        async def step() -> None:
            raise ConnectionFailedError(f"gone: {type(claim).__name__}")

        await Backoff(deadline_s=0.0 if ends == "at the deadline" else 60.0).async_retry(step)

    async def dropped() -> weakref.ref[Held]:
        claim = Held()
        with pytest.raises((ConnectionFailedError, TimeoutError)):
            async with asyncio.timeout(0.01):
                await settle(claim)
        return weakref.ref(claim)

    gc.disable()
    try:
        assert asyncio.run(dropped())() is None
    finally:
        gc.enable()


def test_the_back_off_while_an_object_is_missing_ends_at_two_seconds():
    backoff, missing = Backoff(), GroupNotFoundError("no group")

    assert max(backoff.failed(missing) for _ in range(20)) <= 2.0
    assert backoff.failed(ServerError("no rights")) > 2.0
