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
from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pgsluice import AsyncWorkQueue, resolve
from pgsluice.worker import App, Context, Reject, RetryPolicy

# Or your own URL: create_async_engine("postgresql+psycopg://user@host/shop").
engine = create_async_engine(
    "postgresql+psycopg://",
    async_creator=lambda: psycopg.AsyncConnection.connect(resolve().conninfo),
)
Session = async_sessionmaker(engine, expire_on_commit=False)
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


@app.handler("placed", retry=RetryPolicy(max_attempts=5, jitter=True), timeout_s=30)
async def pack(placed: Placed, context: Context) -> None:
    """Pack an order; its new state and the acknowledgement are one transaction."""
    async with context.transaction(Session) as session:
        order = await session.get_one(Order, placed.order_id)
        if order.cents <= 0:
            raise Reject("the amount of the order is not positive")
        order.state = f"packed in attempt {context.attempt}"


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
    await pack.send_async(Placed(order.id), connection=session)
    await session.commit()
    return {"id": order.id}


@web.get("/orders/{order_id}")
async def show(order_id: int, session: Db) -> dict[str, str]:
    """Show the state of an order.

    Raises:
        HTTPException: There is no such order.
    """
    order = await session.get(Order, order_id)
    if order is None:
        raise HTTPException(404, "no such order")
    return {"customer": order.customer, "state": order.state}


async def set_up() -> None:
    """Create the tables and the queues."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        for name in ("placed", "reports"):
            await AsyncWorkQueue(connection).create(name)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(set_up())
