"""Orders over HTTP with FastAPI and SQLAlchemy: an order and its message commit together.

    pgsluice schema install
    python shop.py
    uvicorn shop:web

The web server runs a worker in its process. See README.md for requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

import psycopg
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pgsluice import AsyncWorkQueue, resolve
from pgsluice.errors import MessageFailedError, ResultError, ResultNotKeptError, ResultTimeoutError
from pgsluice.worker import App, Context, Reject, RetryPolicy

# Or your own URL: create_async_engine("postgresql+psycopg://user@host/shop").
engine = create_async_engine(
    "postgresql+psycopg://",
    async_creator=lambda: psycopg.AsyncConnection.connect(resolve().conninfo),
)
Session = async_sessionmaker(engine, expire_on_commit=False)
# Status and text for a request of a label that there is not.
WITHOUT_RESULT: dict[type[ResultError], tuple[int, str]] = {
    ResultTimeoutError: (202, "not packed yet; ask again"),
    ResultNotKeptError: (404, "no label: the order was cancelled, or its label has expired"),
    MessageFailedError: (500, "the order could not be packed"),
}
WAIT_S = 10.0
app = App(name="shop")


class Base(DeclarativeBase):
    """Base of the models."""


class Order(Base):
    """An order of a customer."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    cents: Mapped[int]
    state: Mapped[str] = mapped_column(default="new")
    message_id: Mapped[int | None]


class Report(Base):
    """Number of packed orders, counted by a schedule."""

    __tablename__ = "report"
    id: Mapped[int] = mapped_column(primary_key=True)
    packed: Mapped[int]


@dataclass
class Placed:
    """Payload of the queue `placed`."""

    order_id: int


@dataclass
class Day:
    """Payload of the queue `reports`."""

    zone: str = "UTC"


@app.handler("placed", retry=RetryPolicy(max_attempts=5), timeout_s=30, keep_result="1h")
async def pack(placed: Placed, context: Context) -> str:
    """Pack an order and return its label; state, result and acknowledgement are one transaction."""
    async with context.transaction(Session) as session:
        order = await session.get_one(Order, placed.order_id)
        if order.cents <= 0:
            raise Reject("the amount of the order is not positive")
        order.state = f"packed in attempt {context.attempt}"
    return f"label {placed.order_id}"


@app.handler("reports")
async def report(_day: Day, context: Context) -> None:
    """Count the packed orders."""
    async with context.transaction(Session) as session:
        packed = await session.scalar(select(func.count()).where(Order.state.startswith("packed")))
        session.add(Report(packed=packed or 0))


app.schedule("daily report", handler=report, payload=Day(), cron="0 6 * * *")
web = FastAPI(lifespan=app.lifespan)


async def session() -> AsyncIterator[AsyncSession]:
    """Give a request its session."""
    async with Session() as opened:
        yield opened


Db = Annotated[AsyncSession, Depends(session)]


@web.post("/orders", status_code=201)
async def place(customer: str, cents: int, session: Db) -> dict[str, int]:
    """Store an order and send its message in one transaction."""
    order = Order(customer=customer, cents=cents)
    session.add(order)
    await session.flush()
    order.message_id = await pack.send_async(Placed(order.id), connection=session)
    await session.commit()
    return {"id": order.id}


@web.get("/orders/{order_id}")
async def show(order_id: int, session: Db) -> dict[str, str]:
    """Show the state of an order."""
    order = await _order(order_id, session)
    return {"customer": order.customer, "state": order.state}


@web.get("/orders/{order_id}/label")
async def label(order_id: int, session: Db) -> dict[str, str]:
    """Wait for the result of the handler, for at most `WAIT_S` seconds."""
    order = await _order(order_id, session)
    await session.close()  # a connection of the pool is not kept while waiting
    return {"label": await pack.result_async(order.message_id or 0, timeout_s=WAIT_S)}


@web.exception_handler(ResultError)
async def without_result(_request: Request, error: ResultError) -> JSONResponse:
    """Answer for a message without a result."""
    status, text = WITHOUT_RESULT[type(error)]
    return JSONResponse({"detail": text}, status)


@web.delete("/orders/{order_id}")
async def cancel(order_id: int, session: Db) -> dict[str, bool]:
    """Cancel an order that is not packed, running or not, in one transaction."""
    order = await _order(order_id, session)
    is_cancelled = await pack.cancel_async(order.message_id or 0, connection=session)
    if is_cancelled:
        order.state = "cancelled"
    await session.commit()
    return {"cancelled": is_cancelled}


async def _order(order_id: int, session: AsyncSession) -> Order:
    order = await session.get(Order, order_id)
    if order is None:
        raise HTTPException(404, "no such order")
    return order


async def set_up() -> None:
    """Create the tables and the queues."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        for name in ("placed", "reports"):
            await AsyncWorkQueue(connection).create(name)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(set_up())
