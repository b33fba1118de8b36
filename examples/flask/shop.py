"""Orders over HTTP with Flask and psycopg: an order and its message commit together.

    pgsluice schema install
    python shop.py
    flask --app shop:web run
    pgsluice worker run shop:app

See README.md for requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flask import Flask, abort, request
from psycopg_pool import ConnectionPool

from pgsluice import WorkQueue, connect, resolve
from pgsluice.sessions import SluiceConnection
from pgsluice.worker import App, RetryPolicy, SyncContext

TABLE = """
    create table customer_order (
        order_id bigint generated always as identity primary key,
        customer text not null,
        state text not null default 'new'
    )
"""
app = App(name="shop")
web = Flask(__name__)
# Opened by the first request: a fork of a server must not share its connections.
pool = ConnectionPool[SluiceConnection](
    lambda: resolve().conninfo, connection_class=SluiceConnection, open=False
)


@dataclass
class Placed:
    """Payload of the queue `placed`."""

    order_id: int


@app.handler("placed", retry=RetryPolicy(max_attempts=5), timeout_s=30)
def pack(placed: Placed, context: SyncContext) -> None:
    """Pack an order; its new state and the acknowledgement are one transaction."""
    with context.transaction() as connection:
        connection.execute(
            "update customer_order set state = 'packed' where order_id = %s", (placed.order_id,)
        )


@web.before_request
def open_pool() -> None:
    """Open the pool of this process; further calls do nothing."""
    pool.open()


@web.post("/orders")
def place() -> tuple[dict[str, int], int]:
    """Store an order and send its message in one transaction."""
    with pool.connection() as connection:  # commits at the end of the block
        (order_id,) = connection.execute(
            "insert into customer_order (customer) values (%s) returning order_id",
            (request.args["customer"],),
        ).fetchone()
        pack.send(Placed(order_id), connection=connection)
    return {"id": order_id}, 201


@web.get("/orders/<int:order_id>")
def show(order_id: int) -> dict[str, Any]:
    """Show the state of an order."""
    with pool.connection() as connection:
        found = connection.execute(
            "select customer, state from customer_order where order_id = %s", (order_id,)
        ).fetchone()
    if found is None:
        abort(404)
    return dict(zip(("customer", "state"), found, strict=True))


def set_up() -> None:
    """Create the table and the queue."""
    with connect() as connection, connection.transaction():
        connection.execute(TABLE)
        WorkQueue(connection).create("placed")


if __name__ == "__main__":
    set_up()
