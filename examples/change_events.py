"""Change events: every change of a table goes to a handler, once, and in order for each row.

    pgsluice schema install
    python change_events.py setup
    python change_events.py change
    pgsluice maintain --once
    pgsluice worker run change_events:app --until-empty
    python change_events.py show

The last one prints

    1: 5 3
    2: 7
    4: 9 gone

"""

from __future__ import annotations

import sys

from pgsluice import EventLog, connect, resolve
from pgsluice.worker import App, SyncContext

app = App(name="change events")


@app.handler(log="stock_changes", group="shelf")
def restock(change: str | None, context: SyncContext) -> None:
    """Append what a row became to the shelf's notes. Of one row the changes come one at a time, in their order."""
    print(change, context.headers)


def setup() -> None:
    with connect(resolve()) as connection:
        connection.execute(
            "create table stock (item integer primary key, quantity integer not null)"
        )
        connection.execute("create table shelf_note (item integer, note text, noted_at bigserial)")
        log = EventLog(connection)
        log.create_queue("stock_changes")
        log.capture("stock", "stock_changes")


def change() -> None:
    with connect(resolve()) as connection:
        connection.execute("insert into stock values (1, 5), (2, 7), (4, 9)")
        connection.execute("update stock set quantity = 3 where item = 1")
        connection.execute("delete from stock where item = 4")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["setup"]:
            setup()
        case ["change"]:
            change()
        case _:
            sys.exit("use setup, change, or show")
