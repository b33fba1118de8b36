"""Orders and receipts: an order and its message commit in one transaction, and each receipt is written exactly once.

    pgsluice schema install
    python order_service.py setup
    python order_service.py place ada 1200
    python order_service.py place bob 550
    pgsluice worker run order_service:app --until-empty
    python order_service.py show

The last command prints

    order 1 of ada: 12.00, receipt after attempt 1
    order 2 of bob: 5.50, receipt after attempt 1
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from pgsluice import WorkQueue, connect
from pgsluice.worker import App, Reject, RetryPolicy, SyncContext

TABLES = """
    create table customer_order (
        order_id bigint generated always as identity primary key,
        customer text not null,
        cents integer not null
    );
    create table receipt (
        order_id bigint primary key references customer_order,
        attempt integer not null
    );
"""


@dataclass
class Order:
    """Payload of the queue `receipts`; a message that does not match is dead-lettered."""

    order_id: int
    customer: str
    cents: int


app = App(name="order service")


@app.handler(
    "receipts",
    retry=RetryPolicy(max_attempts=5, backoff="exponential"),
    timeout_s=30,
)
def write_receipt(order: Order, context: SyncContext) -> None:
    """Write a receipt; it and the acknowledgement commit in one transaction, which gives an exactly-once effect."""
    if order.cents <= 0:
        raise Reject("the amount of the order is not positive")
    with context.transaction() as connection:
        connection.execute(
            "insert into receipt (order_id, attempt) values (%s, %s)",
            (order.order_id, context.attempt),
        )


def setup() -> None:
    with connect() as connection:
        connection.execute(TABLES)
        WorkQueue(connection).create("receipts")


def place(customer: str, cents: int) -> None:
    with connect() as connection:  # one transaction for the order and its message
        (order_id,) = connection.execute(
            "insert into customer_order (customer, cents) values (%s, %s) returning order_id",
            (customer, cents),
        ).fetchone()
        write_receipt.send(Order(order_id, customer, cents), connection=connection, key=customer)


def show() -> None:
    with connect() as connection:
        for order_id, customer, cents, attempt in connection.execute(
            "select order_id, customer, cents, attempt from customer_order join receipt using (order_id) order by 1"
        ):
            print(
                f"order {order_id} of {customer}: {cents / 100:.2f}, receipt after attempt {attempt}"
            )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["setup"]:
            setup()
        case ["place", customer, cents]:
            place(customer, int(cents))
        case ["show"]:
            show()
        case _:
            sys.exit("use setup, place CUSTOMER CENTS, or show")
