"""Topics and groups: what is published once is handled once by each who asked for it.

    pgsluice schema install
    python topics.py setup
    python topics.py publish
    pgsluice worker run topics:app --until-empty
    python topics.py show

The last one prints

    alarms: 1, kept, readings: 4
    billing: 2 events, shipping: 2 events

Without `--until-empty` the worker goes on and waits: it listens, and looks at a queue only when there may be something.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

from pgsluice import EventLog, ShareGroup, WorkQueue, connect, resolve
from pgsluice.worker import App, SyncContext

app = App(name="topics")


# Queues that are bound to patterns of routing keys: `*` is a word, `#` any number of them.
@app.handler("alarms", topic="*.temperature.high")
def alarm(reading: dict[str, Any], context: SyncContext) -> None:
    note(context, "alarms", reading)


@app.handler("readings", topic="cellar.#", keep="archive")
def keep(reading: dict[str, Any], context: SyncContext) -> None:
    note(context, "readings", reading)


# Groups of one log: each gets every event, and shares them among its processes.
@app.handler(log="parcels", group="billing")
def bill(parcel: str, context: SyncContext) -> None:
    note(context, "billing", parcel)


@app.handler(log="parcels", group="shipping", event_types=["packed"])
def ship(parcel: str, context: SyncContext) -> None:
    note(context, "shipping", parcel)


def note(context: SyncContext, who: str, what: object) -> None:
    with context.transaction() as connection:
        connection.execute("insert into seen (who, what) values (%s, %s)", (who, str(what)))


def setup() -> None:
    with connect(resolve()) as connection:
        connection.execute("create table seen (who text, what text)")
        queue = WorkQueue(connection)
        for name, pattern in (("alarms", "*.temperature.high"), ("readings", "cellar.#")):
            queue.create(name)
            queue.bind_topic(pattern, name)
        # Handled messages are kept for a week, then `pgsluice maintain` drops them.
        queue.set_retention("readings", timedelta(days=7))
        EventLog(connection).create_queue("parcels")
        for group in ("billing", "shipping"):
            ShareGroup(connection, "parcels", group).create()


def publish() -> None:
    with connect(resolve()) as connection:
        queue = WorkQueue(connection)
        queue.send_topic("cellar.temperature.high", {"celsius": 31})
        for celsius in (11, 12, 13):
            queue.send_topic("cellar.temperature.normal", {"celsius": celsius})
        log = EventLog(connection)
        for parcel in ("p1", "p2"):
            log.insert_event("parcels", "packed", parcel)


def show() -> None:
    with connect(resolve()) as connection:
        seen = dict(connection.execute("select who, count(*) from seen group by who").fetchall())
        print(f"alarms: {seen['alarms']}, kept, readings: {seen['readings']}")
        print(f"billing: {seen['billing']} events, shipping: {seen['shipping']} events")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["setup"]:
            setup()
        case ["publish"]:
            publish()
        case ["show"]:
            show()
        case _:
            sys.exit("use setup, publish, or show")
