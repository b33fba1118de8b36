"""Change events: a handler receives every change of a table, in order.

    pgsluice schema install
    python change_events.py setup
    python change_events.py change
    pgsluice maintain --once
    pgsluice worker run change_events:app --until-empty
    python change_events.py show

The last command prints

    item 1: 5, 3
    item 2: 7
    item 4: 9, sold out

While `pgsluice maintain` runs, it ticks the log, and changes are handled within milliseconds.
"""

from __future__ import annotations

import sys
from typing import Any

from pgsluice import EventLog, connect
from pgsluice.worker import App, Context

app = App(name="change events")


# A consumer receives events in order, each batch in one transaction, which gives writes in it an exactly-once effect.
@app.handler(log="stock_changes", consumer="shelf")
async def follow(change: dict[str, Any], context: Context) -> None:
    """Record the new quantity of an item."""
    item = (change["after"] or change["before"])["item"]
    note = str(change["after"]["quantity"]) if change["after"] else "sold out"
    async with context.transaction() as connection:
        await connection.execute(
            "insert into shelf_note (item, note) values (%s, %s)", (item, note)
        )


def setup() -> None:
    with connect() as connection:
        connection.execute(
            "create table stock (item integer primary key, quantity integer not null)"
        )
        connection.execute(
            "create table shelf_note (place bigint generated always as identity, item integer, note text)"
        )
        log = EventLog(connection)
        log.create("stock_changes")
        log.register_consumer("stock_changes", "shelf")
        log.capture("stock", "stock_changes")  # from now on, each row change inserts an event


def change() -> None:
    with connect() as connection:
        connection.execute("insert into stock values (1, 5), (2, 7), (4, 9)")
        connection.execute("update stock set quantity = 3 where item = 1")
        connection.execute("delete from stock where item = 4")


def show() -> None:
    with connect() as connection:
        for item, notes in connection.execute(
            "select item, string_agg(note, ', ' order by place) from shelf_note group by item order by item"
        ):
            print(f"item {item}: {notes}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["setup"]:
            setup()
        case ["change"]:
            change()
        case ["show"]:
            show()
        case _:
            sys.exit("use setup, change, or show")
