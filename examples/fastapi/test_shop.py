"""Tests of the shop, as a project would write them: `pytest test_shop.py`."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
import shop
from shop import Order, Placed, Report, Session, pack
from sqlalchemy import select

from pgsluice import AsyncWorkQueue
from pgsluice.testing import drain_async, run_handler_async
from pgsluice.worker import Reject


@pytest.fixture
async def database(pgsluice_database: Any, monkeypatch: pytest.MonkeyPatch):
    """A database of this test with the schemas, tables and queues."""
    monkeypatch.setenv("PGSLUICE_DSN", pgsluice_database.dsn)
    await shop.set_up()
    yield
    await shop.app.aclose()
    await shop.engine.dispose()


async def test_order_and_message_commit_together(database):
    async with Session() as session:
        await shop.place("ada", 1200, session)
        session.add(Order(customer="bob", cents=5))
        await pack.send_async(Placed(2), connection=session)
        await session.rollback()

        waiting = await AsyncWorkQueue(session).read("placed", vt=0, qty=9)
        assert [message.message for message in waiting] == [{"order_id": 1}]
        assert (await shop.show(1, session))["state"] == "new"


async def test_worker_packs_orders(database):
    async with Session() as session:
        await shop.place("ada", 1200, session)
        await shop.place("eve", -1, session)

    counts = await drain_async(shop.app)

    assert (counts["pack"].done, counts["pack"].dead) == (1, 1)
    async with Session() as session:
        assert (await shop.show(1, session))["state"] == "packed in attempt 1"


async def test_label_is_the_result_of_the_handler(database):
    async with Session() as session:
        await shop.place("ada", 1200, session)
        await drain_async(shop.app)
        assert await shop.label(1, session) == {"label": "label 1"}


async def test_label_without_a_result(database, monkeypatch):
    monkeypatch.setattr(shop, "WAIT_S", 0)
    transport = httpx2.ASGITransport(shop.web)
    async with httpx2.AsyncClient(transport=transport, base_url="http://shop") as client:
        for cents in (1200, -1):
            await client.post(f"/orders?customer=ada&cents={cents}")
        assert (await client.get("/orders/1/label")).status_code == 202
        await client.delete("/orders/1")
        assert (await client.get("/orders/1/label")).status_code == 404
        await drain_async(shop.app)
        failed = await client.get("/orders/2/label")
    assert (failed.status_code, failed.json()) == (500, {"detail": "the order could not be packed"})


async def test_cancelled_order_is_not_packed(database):
    async with Session() as session:
        await shop.place("ada", 1200, session)
        assert await shop.cancel(1, session) == {"cancelled": True}
        assert await shop.cancel(1, session) == {"cancelled": False}
        await drain_async(shop.app)
        assert (await shop.show(1, session))["state"] == "cancelled"


async def test_handler_writes_in_the_session_of_the_test(database):
    async with Session() as session:
        session.add(Order(customer="ada", cents=1200))
        session.add(Order(customer="eve", cents=0))
        await session.flush()
        first = await run_handler_async(pack, Placed(1), connection=session)
        second = await run_handler_async(pack, Placed(2), connection=session)
        assert first.result == "done"
        assert isinstance(second.outcome, Reject)
        await session.rollback()


async def test_report_counts_packed_orders(database):
    async with Session() as session:
        session.add(Order(customer="ada", cents=1, state="packed in attempt 1"))
        await session.commit()
        await run_handler_async(shop.report, shop.Day(), connection=session)
        assert (await session.scalars(select(Report.packed))).all() == [1]
