"""Nudge: it ends the wait for something else, before and during it."""

from __future__ import annotations

import asyncio

import pytest

from pgsluice.worker.engine.flow.nudge import Nudge


async def test_the_wait_ends_with_the_work():
    nudge, ended = Nudge(), []

    async def work():
        ended.append(1)

    await nudge.unless_set(work())

    assert ended == [1]


@pytest.mark.parametrize("is_before", [True, False])
async def test_a_nudge_before_or_during_the_wait_cancels_the_work(is_before):
    nudge = Nudge()
    if is_before:
        nudge.set()
    else:
        asyncio.get_running_loop().call_later(0.01, nudge.set)

    async with asyncio.timeout(10):
        await nudge.unless_set(asyncio.Event().wait())


async def test_a_second_nudge_leaves_the_work_its_cleanup():
    """As a statement, which is cancelled in the server first."""
    nudge, loop = Nudge(), asyncio.get_running_loop()
    begun, cancelled, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ended = []

    async def work():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            await may_end.wait()
            ended.append(1)

    waiting = loop.create_task(nudge.unless_set(work()))
    await begun.wait()
    nudge.set()
    await cancelled.wait()
    nudge.set()
    loop.call_soon(may_end.set)
    await waiting

    assert ended == [1]


async def test_after_clear_the_work_is_waited_for():
    nudge = Nudge()
    nudge.set()
    nudge.clear()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await nudge.unless_set(asyncio.Event().wait())


async def test_the_error_of_the_work_is_raised():
    async def work():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await Nudge().unless_set(work())


async def test_a_cancelled_wait_ends_its_work():
    ended = asyncio.Event()

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(Nudge().unless_set(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
