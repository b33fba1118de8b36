"""Sentences for the facts of explanations, by section and cause.

A sentence does not have its time, which follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# A consumer that reads once an hour keeps segments, too. As `Thresholds.consumer_idle_s` of doctor.
_ABSENT_S = 3600


class Values(dict[str, Any]):
    """Values of a fact by name, as attributes; None for one that it does not have."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)

    def __missing__(self, name: str) -> None:
        return None


# A template with names of values in braces, or a function.
Sentence = str | Callable[[Values], str]


def counted(number: int, noun: str, *verbs: str, at_least: bool = False) -> str:
    """Return a number and a noun, and of two verbs the one that agrees."""
    verb = f" {verbs[number != 1]}" if verbs else ""
    return f"{number} {noun}{'' if number == 1 else 's'}{' or more' if at_least else ''}{verb}"


def _of_several(number: int, rest: str) -> str:
    """Return the rest of a sentence that tells one of several; nothing if there is one only."""
    return "" if number == 1 else rest


def _joined(*parts: str | None) -> str:
    return ": ".join(part for part in parts if part)


def sized(size: float) -> str:
    """Return a size in bytes as `pg_size_pretty` does: `10239 bytes`, `10 kB`, `1953 kB`."""
    amount, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if amount < 10_240:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}"


def _key(d: Values) -> str:
    return "its key" if d.key is None else f"key {d.key!r}"


def _message(d: Values) -> str:
    in_queue = f"Message {d.msg_id} is in queue {d.queue_name}"
    match d.state:
        case "ready" if d.read_ct == 0:
            return f"{in_queue}, ready to be claimed"
        case "ready" if d.is_expired:
            return f"{in_queue}, ready to be redelivered: its lease expired"
        case "ready":
            return f"{in_queue}, ready to be claimed once more"
        case "delayed":
            return (
                f"{in_queue}, delayed{'; it becomes visible' if d.has_end else ' without an end'}"
            )
        case "retrying":
            return f"{in_queue} and waits for its retry"
        case "released":
            until = "; it becomes visible" if d.has_end else " that has no end"
            return f"{in_queue}: it was released unprocessed, with a delay{until}"
        case "in flight":
            return f"Message {d.msg_id} of queue {d.queue_name} is in flight: it was claimed"
        case "archived":
            return f"Message {d.msg_id} of queue {d.queue_name} is finished and archived"
        case "dead":
            return f"Message {d.msg_id} of queue {d.queue_name} is a dead letter"
        case "gone":
            return (
                f"Message {d.msg_id} is neither in queue {d.queue_name} nor in its archive nor among its dead letters; "
                f"its id was used, the newest is {d.newest_msg_id}"
            )
    if d.newest_msg_id == 0:
        return f"Queue {d.queue_name} never had a message"
    known = "ids start at 1" if int(d.msg_id) < 1 else f"the newest is {d.newest_msg_id}"
    return f"Queue {d.queue_name} never had a message {d.msg_id}: {known}"


def _messages(d: Values) -> str:
    if d.length == 0:
        return f"Queue {d.queue_name} is empty"
    counts = (
        f"{d.visible} visible, {d.in_flight} in flight, {d.retrying} waiting for a retry or the delay of a release, "
        f"{d.delayed} delayed"
    )
    return f"Queue {d.queue_name} has {counted(d.length, 'message')}: {counts}"


def _key_of_messages(d: Values) -> str:
    if d.state == "unordered":
        return f"Queue {d.queue_name} has neither limits of keys nor FIFO indexes, so its keys block nothing"
    messages = counted(d.messages, "message", at_least=d.at_least)
    return f"Key {d.key!r} of queue {d.queue_name} has {messages}, {d.visible} visible, {d.in_flight} in flight"


def _key_of_events(d: Values) -> str:
    match d.state:
        case "unordered":
            return f"Share group {d.group_name} of log {d.log_name} has no key, so its events have no order"
        case "parked":
            return f"Key {d.key!r} is parked with {counted(d.parked, 'event')}"
        case "claimed":
            behind = f", and {counted(d.waiting, 'event', 'waits', 'wait')}" if d.waiting else ""
            return f"Key {d.key!r} is claimed{behind}"
        case "waiting":
            return f"Key {d.key!r} has {counted(d.waiting, 'event')} waiting"
    return f"Key {d.key!r} is free: it has no claimed and no waiting event"


def _event(d: Values) -> str:
    if int(d.ev_id) < 1:
        return f"Log {d.log_name} never had an event {d.ev_id}: ids start at 1"
    if d.state == "unknown":
        return f"Log {d.log_name} never had an event {d.ev_id}: the newest id is {d.newest_ev_id}"
    if d.state == "gone" and not d.is_searched:
        return f"Event {d.ev_id} of log {d.log_name} was not found among the first 50000 events around its id"
    if d.state == "gone":
        gone = f"Event {d.ev_id} of log {d.log_name} is not in the log"
        return f"{gone}; its id was used, the newest is {d.newest_ev_id}"
    return f"Event {d.ev_id} is in log {d.log_name}; it was inserted"


def _share_group(d: Values) -> str:
    counts = [f"{counted(d.lag_events, 'event')} to claim", f"{d.leased} leased"]
    if d.retrying is not None:
        counts.append(f"{d.retrying} waiting for a redelivery")
    counts.append(counted(d.dead, "dead letter", at_least=d.at_least))
    oldest = "; the oldest event to claim was inserted" if d.lag_events else ""
    return f"Share group {d.group_name} of log {d.log_name}: {', '.join(counts)}{oldest}"


def _schedule(d: Values) -> str:
    state = {"paused": "is paused", "ended": "has no further slot"}.get(
        d.state, "has its next slot"
    )
    return f"Schedule {d.name} for {d.target} {d.queue_name} {state}"


def _pipeline(d: Values) -> str:
    if d.is_running:
        return f"Pipeline {d.kind} into {d.lake} runs, in {d.held_by}; it started"
    return f"Pipeline {d.kind} into {d.lake} is not running; the last one was {d.held_by}, which started"


def _sent(d: Values) -> str:
    origin = d.origin or {}
    if d.schedule is not None:
        return f"Sent by schedule {d.schedule}"
    if "log" in origin:
        return f"Sent by the redrive of event {origin.get('ev_id')} of log {origin['log']}"
    if not origin:
        return "Sent"
    what = "redrive" if "dead_letter_id" in origin else "replay"
    return f"Sent by the {what} of message {origin.get('msg_id')} of queue {origin.get('queue')}"


def _newest_id(d: Values) -> str:
    sent = "; the newest message in the queue was sent" if d.in_queue else ""
    return f"The newest id is {d.newest_msg_id}{sent}"


def _export(d: Values) -> str:
    if d.is_verified:
        return f"Exported by {d.export_name} to {d.lake} and verified there"
    return f"Not yet verified by export {d.export_name} in {d.lake}"


def _dead_letters(d: Values) -> str:
    dead = counted(d.dead, "dead letter", at_least=d.at_least)
    return f"{dead} in the last day{_of_several(d.dead, ', the last one')}{f' with {d.error}' if d.error else ''}"


def _key_behind(d: Values) -> str:
    visible = "visible" if d.is_visible else "in flight or delayed"
    before = f"Message {d.msg_id} precedes it in {_key(d)}"
    return f"{before} and blocks it for consumers that read by group (pgmq.read_grouped); it is {visible}"


def _key_in_flight(d: Values) -> str:
    others = f" with {counted(d.others, 'other')}, the limit of the key" if d.others else ""
    return f"Message {d.msg_id} of {_key(d)} is in flight{others}; its lease ends"


def _running(d: Values) -> str:
    dead = "" if d.is_live else ", which is not live any more"
    return (
        f"Handler {d.handler} runs it in worker {d.app} on host {d.host}, pid {d.pid}{dead}, since"
    )


def _failure(d: Values) -> str:
    name = d.queue_name if d.group_name is None else f"{d.queue_name}, share group {d.group_name}"
    return _joined(f"Maintenance task {d.task} of {name} began to fail", d.error)


def _no_tick(d: Values) -> str:
    made = "its external ticker made its last tick" if d.is_external else "its last tick was made"
    if d.events:
        return f"Consumers cannot read {counted(d.events, 'new event')} of log {d.log_name}: {made}"
    return f"Log {d.log_name} has no new events, and no ticks either: {made}"


def _maintenance(d: Values) -> str:
    if d.session is None:
        none = "No process leads the maintenance of this database"
        return f"{none}; start one, unless pg_cron or a ticker of your own runs it"
    return f"Maintenance is led by {d.session}"


def is_absent(d: Values) -> bool:
    return bool(d.pinned_bytes) and d.idle_s > _ABSENT_S


def _consumer_lag(d: Values) -> str:
    kept = ""
    if is_absent(d):
        kept = (
            f" and keeps {sized(d.pinned_bytes)} of segments (if it does not return, unregister it)"
        )
    behind = f"{counted(d.lag_events, 'event')} behind the newest event"
    return f"Consumer {d.consumer_name} is about {behind}{kept}; it was last active"


def _position_lost(d: Values) -> str:
    who = f"consumer {d.consumer_name}" if d.consumer_name else f"share group {d.group_name}"
    return _joined(f"The position of {who} was given up", d.lost)


def _claim(d: Values) -> str:
    renewed = " and was renewed" if d.renewals else ""
    return f"Claim {d.claim_id} holds {counted(d.events - d.settled, 'event')}{renewed}; its lease"


def _behind(d: Values, what: str) -> str:
    key = "a key" if d.key is None else f"key {d.key!r}"
    return f"{counted(d.waiting, 'event')} of {key} {what}"


def _type_waits(d: Values) -> str:
    waiting = [
        counted(number, noun)
        for number, noun in ((d.waiting, "event"), (d.waiting_keys, "key"))
        if number
    ]
    if d.handler is None:
        handler = "a worker that declares it"
    else:
        dead = "" if d.workers else ", which no live worker runs"
        handler = f"handler {d.handler} of app {d.app}{dead}"
    return f"{' and '.join(waiting)} of type {d.ev_type or '(none)'} waiting for {handler}"


def _type_unhandled(d: Values) -> str:
    done = (
        f"workers accepted {counted(d.accepted, 'event')} of it and dead-lettered {d.dead_lettered}"
    )
    last = _of_several(d.accepted + d.dead_lettered, ", the last one")
    return f"No handler is declared for type {d.ev_type or '(none)'}: {done}{last}"


def _next_of_events_key(d: Values) -> str:
    match d.state:
        case "parked":
            return "Nothing, until it is unparked"
        case "claimed":
            return "The claim is settled, or its lease expires; then the next event of the key can be claimed"
    return "The next claim takes its next event"


SENTENCES: dict[str, dict[str, Sentence]] = {
    "state": {
        "messages": _messages,
        "visible since": "The oldest visible message became visible",
        "message": _message,
        "key of messages": _key_of_messages,
        "key of events": _key_of_events,
        "log": lambda d: (
            f"The newest event id of log {d.log_name} is {d.newest_ev_id}"
            if d.newest_ev_id
            else f"Log {d.log_name} never had an event"
        ),
        "newest tick": "Tick {tick_id}, the newest one, was made",
        "event": _event,
        "consumer": "Consumer {consumer_name} of log {log_name} has finished all events up to tick {last_tick}",
        "pipeline": _pipeline,
        "share group": _share_group,
        "schedule": _schedule,
    },
    "history": {
        "created": "It was created",
        "newest id": _newest_id,
        "archived": lambda d: "Archived" if d.msg_id else "The last message was archived",
        "dead letters": _dead_letters,
        "sent": _sent,
        "claimed": lambda d: (
            "Claimed once" if d.read_ct == 1 else f"Claimed {d.read_ct} times, most recently"
        ),
        "first failure": "Failed for the first time",
        "last error": lambda d: (
            f"Last error: {_joined(d.error_type, d.error) or 'none recorded; the claim ended without an outcome'}"
        ),
        "attempts": lambda d: f"{d.attempts} of {counted(d.max_attempts, 'attempt')} used",
        "dead letter": lambda d: _joined("Dead-lettered", d.reason),
        "export": _export,
        "rotated": "Its segments were last rotated",
        "batch": "It last opened or finished a batch",
        "lake commit": "It last committed to the lake",
        "pipeline report": lambda d: (
            f"{counted(d.row_count, 'row')} since its start, by its last report"
        ),
        "claimed by group": "Share group {consumer_name} has claimed it; its explanation has claims and redeliveries",
        "finished": "Consumer {consumer_name} has finished it",
        "claim cursor": "Its claim cursor last moved",
        "last slot": "Its last slot that was sent",
        "fired": "It was last sent",
    },
    "reason": {
        "paused": lambda d: _joined(
            f"Queue {d.queue_name} was paused by {d.paused_by}", d.pause_reason
        ),
        "table locked": "The table of queue {queue_name} is locked by {session}",
        "limits locked": (
            "Claims wait for the limits of queue {queue_name}, "
            "which a claim in the open transaction of {session} has locked"
        ),
        "concurrency limit": "The limit of messages of queue {queue_name} in flight is reached: {fleet_concurrency}",
        "rate limit": (
            "The rate limit of queue {queue_name} is reached: {rate} in {rate_interval}; it allows the next claim"
        ),
        "poison message": lambda d: (
            f"Message {d.msg_id} was claimed {counted(d.read_ct, 'time')} and never acknowledged; it was last claimed"
        ),
        "empty": "There is no message to claim",
        "none visible": "No message is visible: all are in flight, delayed or wait for a retry",
        "expired leases": lambda d: (
            f"{counted(d.expired, 'lease', at_least=d.at_least)} expired without an outcome"
            f"{_of_several(d.expired, ', the first')}"
        ),
        "keys parked": lambda d: (
            f"{counted(d.parked, 'key', at_least=d.parked == 1000)} parked{_of_several(d.parked, ', the first')}"
        ),
        "maintenance failure": _failure,
        "no worker": "No live worker is registered for {source}; consumers without a worker are not registered",
        "none": lambda d: (
            "Nothing in the database holds it back, and "
            f"{counted(d.workers, 'live worker', 'is', 'are')} registered for {d.source}; the last report was made"
        ),
        "row locked": "An open transaction has locked or changed it: that of {session}",
        "predecessors": lambda d: (
            f"It waits for {'message' if len(d.msg_ids) == 1 else 'messages'} "
            f"{', '.join(map(str, d.msg_ids[:10]))}{' and others' if len(d.msg_ids) > 10 else ''} "
            f"of queue {d.after_queue}"
        ),
        "delay": lambda d: (
            "Its delay has no end"
            if not d.has_end
            else "It was released unprocessed, which counts as no attempt; its delay ends"
            if d.state == "released"
            else "Its delay ends"
        ),
        "back-off": lambda d: (
            f"It failed; its back-off before attempt {d.attempt} of {d.max_attempts} ends"
            if d.attempt
            else "It failed; its back-off ends"
        ),
        "stream": "Micro-batch {batch} of stream {stream_name} has claimed it",
        "lease": lambda d: (
            f"Worker {d.worker} runs it; its lease ends"
            if d.worker
            else "It is claimed; its lease ends"
        ),
        "running": _running,
        "dead letter": lambda d: _joined("It was dead-lettered", d.reason),
        "gone": (
            "It was deleted (by its consumer, a purge, retention or an export), redriven or purged as a dead letter; "
            "or the transaction that sent it is still open or was rolled back"
        ),
        "order": lambda d: (
            f"{counted(d.ahead, 'visible message', at_least=d.at_least)} with a lower id "
            f"{'is' if d.ahead == 1 else 'are'} claimed first"
        ),
        "key": _key_behind,
        "key parked": lambda d: f"Message {d.msg_id} failed and parked {_key(d)}",
        "key retrying": lambda d: (
            f"Message {d.msg_id} of {_key(d)} waits for its retry and blocks it; it is retried"
        ),
        "key in flight": _key_in_flight,
        "key order": lambda d: f"Message {d.msg_id} precedes it in {_key(d)}",
        "group key parked": lambda d: (
            f"Event {d.ev_id} failed and parked it"
            if d.state == "parked"
            else _behind(d, f"parked behind event {d.ev_id}, since")
        ),
        "group key claimed": lambda d: _behind(d, f"waiting behind claim {d.claim_id}, since"),
        "group key retrying": lambda d: _behind(
            d, f"waiting behind event {d.ev_id}, which is redelivered"
        ),
        "key claimed": "Claim {claim_id} has events of the key and is not settled",
        "key redelivered": "Its next event is redelivered",
        "position lost": _position_lost,
        "consumer lag": _consumer_lag,
        "ticker paused": "The ticker of log {log_name} is paused",
        "no tick": _no_tick,
        "maintenance": _maintenance,
        "next tick": lambda d: (
            f"{counted(d.events, 'event')} of log {d.log_name} since the newest tick; "
            "consumers read after the next tick"
        ),
        "closed": "Log {log_name} refuses new events (disable_insert)",
        "pipeline not running": "No process runs its pipeline",
        "open batch": "Batch {batch_id} is open and not finished; it was opened",
        "up to date": "It has read all events up to the newest tick",
        "event gone": (
            "Its segment was truncated after all consumers had finished it, "
            "or its transaction is open or was rolled back"
        ),
        "before a tick": "No tick covers it yet, so no consumer of batches can read it; the newest tick was made",
        "not claimed": "Share group {consumer_name} has not claimed it; its last claim was made",
        "retry": "Consumer {consumer_name} retries it",
        "in open batch": "It is in batch {batch_id} of consumer {consumer_name}, which was opened",
        "not reached": "Consumer {consumer_name} has not reached it; it was last active",
        "group locked": "Claims wait for the open transaction of {session}, which holds the share group",
        "claim": lambda d: f"{_claim(d)} ends",
        "expired claim": lambda d: f"{_claim(d)} expired, and the next claim redelivers them",
        "all claimed": "It has claimed all events of the log",
        "type waits": _type_waits,
        "type unhandled": _type_unhandled,
        "schedule paused": "It was paused",
        "error": lambda d: _joined("Its last attempt failed", d.error),
        "no target": "The {target} {queue_name} does not exist",
        "late": "No process fired it when it was due",
        "not due": "It is not due yet",
    },
    "next": {
        "next claim": lambda d: (
            "The next claim that reaches it delivers it"
            if d.msg_id
            else "The next claim delivers the oldest events"
            if d.group_name
            else f"The next claim from queue {d.queue_name} delivers its first visible messages"
        ),
        "becomes visible": lambda d: (
            "It becomes visible, and the next claim that reaches it delivers it"
            if d.msg_id
            else "The next delayed message or retry becomes visible"
        ),
        "lease ends": lambda d: (
            "Its lease expires; if its worker neither settles it nor renews the lease before, it is redelivered"
            if d.msg_id
            else "The next lease expires, unless its worker settles or renews it"
        ),
        "dead letter": "Nothing, until it is redriven or purged",
        "retention": "Retention deletes it from the archive, once every export has verified it",
        "no retention": "It stays in the archive: the queue has no retention",
        "result expires": "The kept result of its handler expires",
        "after": "It becomes visible when they are done, or is dead-lettered when one of them is",
        "never visible": "It stays invisible until pgmq.set_vt sets its visibility timeout",
        "stream": "Its stream settles it with its micro-batch",
        "next of key": "The next message of the key to claim is {first_msg_id}",
        "key of events": _next_of_events_key,
        "registration": "Nothing, until it is registered again",
        "pipeline start": "Nothing, until pgsluice pipeline run {pipeline} is started for this consumer",
        "end of batch": "It finishes batch {batch_id}, then opens the next one",
        "next batch": "It opens its next batch at the next tick after its position",
        "redelivery": "A redelivery, an expired lease or a delayed event can be claimed",
        "slot": lambda d: (
            "The next attempt sends its slot" if d.state == "failing" else "It sends its next slot"
        ),
        "no slot": "Nothing, until it is resumed or changed",
    },
}


def sentence(section: str, cause: str, values: Values) -> str:
    """Return the sentence for a fact; for a cause of a later schema the cause itself."""
    found = SENTENCES[section].get(cause)
    if found is None:
        return cause
    return found.format_map(values) if isinstance(found, str) else found(values)
