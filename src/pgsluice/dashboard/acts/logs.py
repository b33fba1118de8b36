"""Acts on consumers and share groups of event logs."""

from __future__ import annotations

from pgsluice.client.calls import acts
from pgsluice.dashboard.acts.act import NOTE, Act, Link, Question, Step
from pgsluice.dashboard.acts.given import FormValues
from pgsluice.dashboard.acts.words import COUNTED_MAX, command, counted, quantity
from pgsluice.dashboard.database import Database, PageSession
from pgsluice.errors import ConsumerNotFoundError

_REDRIVEN_EACH = 500
_PURGED_EACH = 5_000


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
    notes = [
        "Its position is dropped. Registered again, it starts with the events from then on.",
        "The log no longer keeps events for it.",
    ]
    if consumer.idle_s is not None and consumer.idle_s < 60:
        notes.insert(
            0, "It opened or finished a batch in the last minute: its process fails after this."
        )
    behind = (
        "events that it has not finished"
        if consumer.lag_events is None
        else (f"about {quantity(consumer.lag_events, 'event')} that it has not finished")
    )
    return Question(
        f"Unregister consumer {name} of log {log}: it does not receive {behind}.",
        tuple(notes),
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
    waiting = f" {quantity(blocked[key].waiting, 'event')} of it wait." if key in blocked else ""
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


def _ids(session: PageSession, given: FormValues, after_id: int | None, qty: int) -> list[int]:
    group = session.group(given.text("log"), given.text("group"))
    return group.list_dead_event_ids(
        after_dead_event_id=after_id, qty=qty, until=given.find_time("until")
    )


def _question(
    database: Database, given: FormValues, verb: str, end: str, note: str, shell: str
) -> Question:
    log, group = given.text("log"), given.text("group")
    until = given.find_time("until") or database.read(lambda s: s.run(acts.rights(()))).now
    frozen = FormValues(given.values | {"until": until.isoformat()}, {*given.values, "until"})
    read = database.part(
        lambda s: _ids(s, frozen, None, COUNTED_MAX + 1),
        "dead event ids",
        *sorted(frozen.values.items()),
    )
    if read.value is None and not read.is_timeout:
        return Question(read.problem or "", is_possible=False)
    number = None if read.value is None else len(read.value)
    if number == 0:
        return Question(f"Share group {group} of log {log} has no dead events.", is_possible=False)
    return Question(
        f"{verb} {counted(number, 'dead event')} of share group {group} of log {log}{end}.",
        (note, f"Events that are dead-lettered after {until:%Y-%m-%d %H:%M:%S %Z} stay."),
        shell,
        {"until": until.isoformat()},
        None if number is not None and number > COUNTED_MAX else number,
    )


def _ask_redrive(database: Database, given: FormValues) -> Question:
    log, group = given.text("log"), given.text("group")
    database.read(lambda s: s.group(log, group).info())
    return _question(
        database,
        given,
        "Redrive",
        ": each becomes a new event for this group alone",
        "Attempts start at 0.",
        command("group dead-letters redrive --all", log, group),
    )


def _redrive(session: PageSession, given: FormValues, after_id: int | None) -> Step:
    ids = _ids(session, given, after_id, _REDRIVEN_EACH)
    if not ids:
        return Step(0, None)
    return Step(
        len(session.group(given.text("log"), given.text("group")).redrive_events(ids)), ids[-1]
    )


def _ask_purge(database: Database, given: FormValues) -> Question:
    return _question(
        database,
        given,
        "Delete",
        " permanently",
        "They cannot be restored.",
        command("group dead-letters purge", given.text("log"), given.text("group"), older_than="0"),
    )


def _purge(session: PageSession, given: FormValues, after_id: int | None) -> Step:
    ids = _ids(session, given, after_id, _PURGED_EACH)
    if not ids:
        return Step(0, None)
    group = session.group(given.text("log"), given.text("group"))
    return Step(group.purge_dead_events(dead_event_ids=ids, qty=len(ids)), ids[-1])


ACTS = (
    Act(
        name="unregister_consumer",
        title="Unregister the consumer",
        arguments=("log", "consumer"),
        functions=("pgq.unregister_consumer(text,text)", NOTE),
        ask=_ask_unregister,
        back=_back_to_log,
        run=_unregister,
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
    Act(
        name="redrive_events",
        title="Redrive dead events",
        arguments=("log", "group"),
        functions=("sluice.redrive_events(text,text,bigint[],text)",),
        ask=_ask_redrive,
        back=_back_to_group,
        step=_redrive,
        done="redriven",
        choices=("until",),
    ),
    Act(
        name="purge_dead_events",
        title="Purge dead events",
        arguments=("log", "group"),
        functions=("sluice.purge_dead_events(text,text,interval,bigint[],integer)",),
        ask=_ask_purge,
        back=_back_to_group,
        step=_purge,
        done="deleted",
        choices=("until",),
    ),
)
