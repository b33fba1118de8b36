"""Topics and share groups: each bound queue receives a copy of a message, and each group receives all events.

    pgsluice schema install
    python topics.py setup
    python topics.py publish
    pgsluice worker run topics:app --until-empty
    python topics.py show

The last command prints

    alarms: 1, kept, readings: 4
    billing: 2 events, shipping: 2 events

Without `--until-empty` the worker keeps running: it waits with LISTEN instead of polling.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

from pgsluice import EventLog, ShareGroup, WorkQueue, connect
from pgsluice.worker import App, SyncContext

app = App(name="topics")


# Queues bound to routing key patterns: `*` matches one word, `#` any number of words.
@app.handler("alarms", topic="*.temperature.high")
def alarm(reading: dict[str, Any], context: SyncContext) -> None:
    note(context, "alarms", reading)


@app.handler("readings", topic="cellar.#", keep="archive")
def keep(reading: dict[str, Any], context: SyncContext) -> None:
    note(context, "readings", reading)


# Share groups of one log: each group receives all events and distributes them among its processes.
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
    with connect() as connection:
        connection.execute("create table seen (who text, what text)")
        queue = WorkQueue(connection)
        for name, pattern in (("alarms", "*.temperature.high"), ("readings", "cellar.#")):
            queue.create(name)
            queue.bind_topic(pattern, name)
        # `pgsluice maintain` drops archived messages after a week.
        queue.set_queue_options("readings", archive_retention=timedelta(days=7))
        EventLog(connection).create("parcels")
        for group in ("billing", "shipping"):
            ShareGroup(connection, "parcels", group).create()


def publish() -> None:
    with connect() as connection:
        queue = WorkQueue(connection)
        queue.send_topic("cellar.temperature.high", {"celsius": 31})
        for celsius in (11, 12, 13):
            queue.send_topic("cellar.temperature.normal", {"celsius": celsius})
        log = EventLog(connection)
        for parcel in ("p1", "p2"):
            log.insert_event("parcels", "packed", parcel)


def show() -> None:
    with connect() as connection:
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
