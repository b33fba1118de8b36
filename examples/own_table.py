"""A table of one's own as a queue: a status column, and a trigger that sends; the design of hand-made queues.

Any program inserts an order with plain SQL. The trigger sends its message in the same transaction; the message wakes a
worker by NOTIFY, and polling finds what a notification missed. The handler changes the status in the transaction that
acknowledges, so the table and the queue always agree. Failures are retried with a delay, dead letters set the status
`failed`, and an idempotency key keeps a payment from happening twice if an order is sent again.

    pgsluice schema install
    python own_table.py setup
    python own_table.py insert ada bob broken
    pgsluice worker run own_table:app --until-empty --idle-timeout 3     # exit code 1: there is a dead letter
    python own_table.py again
    pgsluice worker run own_table:app --until-empty
    python own_table.py show

The last command prints

    1 ada: paid after attempt 1
    2 bob: paid after attempt 2
    3 broken: failed, PaymentError: no account
    payments: ada bob
"""

from __future__ import annotations

import sys

from pgsluice import DeadLetters, WorkQueue, connect
from pgsluice.worker import App, RetryPolicy, SyncContext

# The payload is an object with the key: the row has the rest.
TABLES = """
    create table customer_order (
        order_id bigint generated always as identity primary key,
        customer text not null,
        status text not null default 'new'
    );
    create table payment (customer text not null);
    create function send_order() returns trigger language plpgsql as $$
    begin
        perform pgmq.send('orders', jsonb_build_object('order_id', new.order_id));
        return null;
    end;
    $$;
    create trigger send_order after insert on customer_order
        for each row execute function send_order();
"""
app = App(name="own table")


class PaymentError(Exception):
    """The payment failed."""


@app.handler("orders", retry=RetryPolicy(max_attempts=2, backoff_base_s=1, backoff_jitter=False))
def pay(order: dict[str, int], context: SyncContext) -> None:
    """Pay an order: the payment, the status and the acknowledgement are one transaction."""
    with context.transaction() as connection:
        (customer,) = connection.execute(
            "select customer from customer_order where order_id = %s for update",
            (order["order_id"],),
        ).fetchone()
        if customer == "broken" or (customer == "bob" and context.attempt == 1):
            raise PaymentError("no account")
        if not context.once(f"pay order {order['order_id']}"):
            return  # the order was sent twice
        connection.execute("insert into payment values (%s)", (customer,))
        connection.execute(
            "update customer_order set status = %s where order_id = %s",
            (f"paid after attempt {context.attempt}", order["order_id"]),
        )


def setup() -> None:
    """Create the tables, the trigger and the queue."""
    with connect() as connection, connection.transaction():
        WorkQueue(connection).create("orders")
        connection.execute(TABLES)


def insert(*customers: str) -> None:
    """Insert orders, as a program in any language does."""
    with connect() as connection, connection.transaction():
        for customer in customers:
            connection.execute("insert into customer_order (customer) values (%s)", (customer,))


def again() -> None:
    """Send order 1 a second time, and note the orders that failed for good."""
    with connect() as connection, connection.transaction():
        WorkQueue(connection).send("orders", {"order_id": 1})
        for letter in DeadLetters(connection, "orders").browse():
            connection.execute(
                "update customer_order set status = %s where order_id = %s",
                (f"failed, {letter.error_type}: {letter.error}", letter.message["order_id"]),
            )


def show() -> None:
    """Print the orders and the payments."""
    with connect() as connection:
        for row in connection.execute("select * from customer_order order by order_id"):
            print("{} {}: {}".format(*row))
        paid = connection.execute("select customer from payment order by customer").fetchall()
        print("payments:", *(customer for (customer,) in paid))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["setup"]:
            setup()
        case ["insert", *customers]:
            insert(*customers)
        case ["again"]:
            again()
        case ["show"]:
            show()
        case _:
            sys.exit("use setup, insert CUSTOMER…, again or show")
