"""Orders over HTTP with Flask and psycopg: an order and its message commit together.

    pgsluice schema install
    python shop.py
    flask --app shop run
    pgsluice worker run shop:app

See README.md for requests.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Flask, abort, current_app, request
from psycopg_pool import ConnectionPool

from pgsluice import WorkQueue, connect, resolve
from pgsluice.errors import MessageFailedError, ResultError, ResultNotKeptError, ResultTimeoutError
from pgsluice.sessions import SluiceConnection
from pgsluice.worker import App, Reject, RetryPolicy, SyncContext

TABLES = """
    create table customer_order (
        order_id bigint generated always as identity primary key,
        customer text not null,
        cents integer not null,
        state text not null default 'new',
        message_id bigint
    );
    create table report (
        report_id bigint generated always as identity primary key,
        packed bigint not null
    )
"""
# Status and text for a request of a label that there is not.
WITHOUT_RESULT: dict[type[ResultError], tuple[int, str]] = {
    ResultTimeoutError: (202, "not packed yet; ask again"),
    ResultNotKeptError: (404, "no label: the order was cancelled, or its label has expired"),
    MessageFailedError: (500, "the order could not be packed"),
}
WAIT_S = 10.0
app = App(name="shop")
orders = Blueprint("orders", __name__)


@dataclass
class Placed:
    """Payload of the queue `placed`."""

    order_id: int


@dataclass
class Day:
    """Payload of the queue `reports`."""

    zone: str = "UTC"


@app.handler("placed", retry=RetryPolicy(max_attempts=5), timeout_s=30, keep_result="1h")
def pack(placed: Placed, context: SyncContext) -> str:
    """Pack an order and return its label; state, result and acknowledgement are one transaction."""
    with context.transaction() as connection:
        (cents,) = connection.execute(
            "select cents from customer_order where order_id = %s", (placed.order_id,)
        ).fetchone()
        if cents <= 0:
            raise Reject("the amount of the order is not positive")
        connection.execute(
            "update customer_order set state = %s where order_id = %s",
            (f"packed in attempt {context.attempt}", placed.order_id),
        )
    return f"label {placed.order_id}"


@app.handler("reports")
def report(_day: Day, context: SyncContext) -> None:
    """Count the packed orders."""
    with context.transaction() as connection:
        connection.execute(
            "insert into report (packed) "
            "select count(*) from customer_order where state like 'packed%'"
        )


app.schedule("daily report", handler=report, payload=Day(), cron="0 6 * * *")


def create_app() -> Flask:
    """Return the application with a pool of its own."""
    web = Flask(__name__)
    # Opened by the first request: a fork of a server must not share its connections.
    pool = ConnectionPool(resolve().conninfo, connection_class=SluiceConnection, open=False)
    web.extensions["pool"] = pool
    web.before_request(pool.open)  # further calls do nothing
    web.register_blueprint(orders)
    return web


def _connection() -> AbstractContextManager[SluiceConnection]:
    """Return a connection of the pool; its block is a transaction."""
    return current_app.extensions["pool"].connection()


@orders.post("/orders")
def place() -> tuple[dict[str, int], int]:
    """Store an order and send its message in one transaction."""
    with _connection() as connection:  # commits at the end of the block
        (order_id,) = connection.execute(
            "insert into customer_order (customer, cents) values (%s, %s) returning order_id",
            (request.args["customer"], int(request.args["cents"])),
        ).fetchone()
        message_id = pack.send(Placed(order_id), connection=connection)
        connection.execute(
            "update customer_order set message_id = %s where order_id = %s", (message_id, order_id)
        )
    return {"id": order_id}, 201


@orders.get("/orders/<int:order_id>")
def show(order_id: int) -> dict[str, Any]:
    """Show the state of an order."""
    customer, state, _ = _order(order_id)
    return {"customer": customer, "state": state}


@orders.get("/orders/<int:order_id>/label")
def label(order_id: int) -> dict[str, Any]:
    """Wait for the result of the handler, for at most `WAIT_S` seconds, without a connection of the pool."""
    _, _, message_id = _order(order_id)
    return {"label": pack.result(message_id, timeout_s=WAIT_S)}


@orders.errorhandler(ResultError)
def without_result(error: ResultError) -> tuple[dict[str, str], int]:
    """Answer for a message without a result."""
    status, text = WITHOUT_RESULT[type(error)]
    return {"error": text}, status


@orders.delete("/orders/<int:order_id>")
def cancel(order_id: int) -> dict[str, bool]:
    """Cancel an order that is not packed, running or not, in one transaction."""
    _, _, message_id = _order(order_id)
    with _connection() as connection:
        is_cancelled = pack.cancel(message_id, connection=connection)
        if is_cancelled:
            connection.execute(
                "update customer_order set state = 'cancelled' where order_id = %s", (order_id,)
            )
    return {"cancelled": is_cancelled}


def _order(order_id: int) -> tuple[str, str, int]:
    with _connection() as connection:
        found = connection.execute(
            "select customer, state, message_id from customer_order where order_id = %s",
            (order_id,),
        ).fetchone()
    if found is None:
        abort(404)
    return found


def set_up() -> None:
    """Create the tables and the queues."""
    with connect() as connection, connection.transaction():
        connection.execute(TABLES)
        for name in ("placed", "reports"):
            WorkQueue(connection).create(name)


if __name__ == "__main__":
    set_up()
