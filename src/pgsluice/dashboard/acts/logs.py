"""Acts on consumers and share groups of event logs."""

from __future__ import annotations

from pgsluice.commands import command
from pgsluice.dashboard.acts.act import NOTE, Act, Link, Question
from pgsluice.dashboard.acts.given import FormValues
from pgsluice.dashboard.database import Database, PageSession
from pgsluice.dashboard.rendering import quantity
from pgsluice.errors import ConsumerNotFoundError


def _back_to_log(given: FormValues) -> Link:
    log = given.text("log")
    return Link("log", {"name": log}, f"Log {log}")


def _back_to_group(given: FormValues) -> Link:
    log, group = given.text("log"), given.text("group")
    return Link("group", {"log": log, "group": group}, f"Share group {group} of log {log}")


def _ask_unregister(database: Database, given: FormValues) -> Question:
    log, name = given.text("log"), given.text("consumer")
    listed = database.read(lambda s: s.logs.list_consumers(log))
    consumer = next((each for each in listed if each.consumer_name == name), None)
    if consumer is None:
        raise ConsumerNotFoundError(f"consumer {name!r} of log {log!r} is not registered")
    details = [
        "Its position is dropped. Registered again, it starts with the events from then on.",
        "The log no longer keeps events for it.",
    ]
    if consumer.idle_s is not None and consumer.idle_s < 60:
        details.insert(
            0, "It opened or finished a batch in the last minute: its process fails after this."
        )
    lost = "it does not receive events that it has not finished"
    if consumer.lag_events == 0:
        lost = "it has finished all events"
    elif consumer.lag_events is not None:
        lost = f"it does not receive about {quantity(consumer.lag_events, 'event')} that it has not finished"
    return Question(
        f"Unregister consumer {name} of log {log}: {lost}.",
        tuple(details),
        command("log unregister", log, name),
        number=consumer.lag_events,
    )


def _unregister(session: PageSession, given: FormValues) -> str:
    log, name = given.text("log"), given.text("consumer")
    if session.logs.unregister_consumer(log, name):
        return f"Consumer {name} of log {log} is unregistered."
    return f"Consumer {name} of log {log} was not registered."


def _ask_unpark(database: Database, given: FormValues) -> Question:
    log, group, key = given.text("log"), given.text("group"), given.text("key")
    database.read(lambda s: s.group(log, group).info())
    blocked = {
        each.key: each
        for each in database.read(lambda s: s.group(log, group).list_blocked_keys())
        if each.reason == "parked"
    }
    waiting = f" Waiting: {quantity(blocked[key].waiting, 'event')}." if key in blocked else ""
    return Question(
        f"Unpark key {key} of share group {group} of log {log}: its events are delivered again, in order.{waiting}",
        ("Their attempts start at 0.",),
        command("group unpark", log, group, key),
    )


def _unpark(session: PageSession, given: FormValues) -> str:
    log, group, key = given.text("log"), given.text("group"), given.text("key")
    number = session.group(log, group).unpark_key(key)
    if number:
        return f"{quantity(number, 'parked event')} of key {key} of share group {group} will be delivered again."
    return f"Key {key} of share group {group} was not parked."


ACTS = (
    Act(
        name="unregister_consumer",
        title="Unregister the consumer",
        arguments=("log", "consumer"),
        functions=("pgq.unregister_consumer(text,text)", NOTE),
        ask=_ask_unregister,
        back=_back_to_log,
        run=_unregister,
        is_destructive=True,
    ),
    Act(
        name="unpark_key",
        title="Unpark the key",
        arguments=("log", "group", "key"),
        functions=("sluice.unpark_key(text,text,text)",),
        ask=_ask_unpark,
        back=_back_to_group,
        run=_unpark,
    ),
)
