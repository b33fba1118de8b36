"""Acts on a work queue: send, purge, pause, resume, retention, and unparking a key."""

from __future__ import annotations

from datetime import timedelta

from pgsluice.client import QueueOptions, QueueSettings
from pgsluice.client.calls import acts
from pgsluice.commands import command
from pgsluice.dashboard.acts.act import NOTE, Act, Field, Link, Question, Step
from pgsluice.dashboard.acts.given import FormValues
from pgsluice.dashboard.database import Database, PageSession
from pgsluice.dashboard.rendering import duration, quantity
from pgsluice.errors import ArgumentError

_PURGED_EACH = 10_000
_COUNTED_EXACTLY = 5000
_FOREVER = "forever"


def _back(given: FormValues) -> Link:
    queue = given.text("queue")
    return Link("queue", {"name": queue}, f"Queue {queue}")


def _messages(number: int) -> str:
    """Return the number of messages of `queue_extent`."""
    return f"{'about ' if number > _COUNTED_EXACTLY else ''}{quantity(number, 'message')}"


def _ask_send(database: Database, given: FormValues) -> Question:
    queue = given.text("queue")
    database.read(lambda s: s.operations.queue_extent(queue))
    return Question(f"Send a message to queue {queue}.", command=command("queue send", queue, "{}"))


def _send(session: PageSession, given: FormValues) -> str:
    queue, delay = given.text("queue"), given.duration("delay")
    if delay % timedelta(seconds=1):
        raise ArgumentError("delay is not in whole seconds; use whole seconds")
    message, headers = given.json("message"), given.find_json_object("headers")
    msg_id = session.run(acts.send_json(queue, message, headers, round(delay.total_seconds())))
    session.operations.note_action(
        "send", queue_name=queue, of_filter={"msg_id": msg_id}, message_count=1
    )
    return f"Message {msg_id} was sent to queue {queue}."


def _ask_purge(database: Database, given: FormValues) -> Question:
    queue = given.text("queue")
    upto = given.find_number("upto_msg_id")
    extent = database.read(lambda s: s.operations.queue_extent(queue, upto_msg_id=upto))
    if extent.last_msg_id is None:
        return Question(
            f"Queue {queue} has no {'such ' if upto else ''}messages.", is_possible=False
        )
    last, number = extent.last_msg_id, extent.message_count
    return Question(
        f"Delete {_messages(number)} of queue {queue}, visible or not, up to msg_id {last}.",
        (
            "They are not archived, and cannot be restored. The archive is kept.",
            "Messages that are sent from now on stay, as do those that a transaction has locked.",
            "The command deletes them, too.",
        ),
        command("queue delete --all", queue),
        {"upto_msg_id": str(last)},
        number,
    )


def _purge(session: PageSession, given: FormValues, after_id: int | None) -> Step:
    done = session.operations.purge_messages(
        given.text("queue"), given.number("upto_msg_id"), after_msg_id=after_id, qty=_PURGED_EACH
    )
    return Step(done.purged, done.last_msg_id)


def _options(database: Database, queue: str) -> QueueSettings:
    return database.read(lambda s: s.queues.queue_options(queue))


def _ask_pause(database: Database, given: FormValues) -> Question:
    queue = given.text("queue")
    extent = database.read(lambda s: s.operations.queue_extent(queue))
    pause = _options(database, queue)
    details = [
        "Workers finish what they have claimed. Producers are not affected, nor is pgmq.read."
    ]
    if pause.paused_at is not None:
        because = f": {pause.pause_reason}" if pause.pause_reason else ""
        details.append(
            f"It is paused already, by {pause.paused_by}{because}. A reason replaces the earlier one."
        )
    return Question(
        f"Pause queue {queue}, which has {_messages(extent.message_count)}: workers claim no more of it.",
        tuple(details),
        command("queue set", queue, "paused=true"),
    )


def _pause(session: PageSession, given: FormValues) -> str:
    queue = given.text("queue")
    options: QueueOptions = {"paused": True}
    reason = given.find("reason")
    if reason:
        options["pause_reason"] = reason
    if session.queues.set_queue_options(queue, **options) == "changed":
        return f"Queue {queue} is paused."
    return f"Queue {queue} was paused already."


def _ask_resume(database: Database, given: FormValues) -> Question:
    queue = given.text("queue")
    extent = database.read(lambda s: s.operations.queue_extent(queue))
    pause = _options(database, queue)
    if pause.paused_at is None:
        return Question(f"Queue {queue} is not paused.", is_possible=False)
    because = f": {pause.pause_reason}" if pause.pause_reason else ""
    return Question(
        f"Resume queue {queue}, which has {_messages(extent.message_count)}: workers claim again.",
        (f"It was paused by {pause.paused_by}{because}.",),
        command("queue set", queue, "paused=false"),
    )


def _resume(session: PageSession, given: FormValues) -> str:
    queue = given.text("queue")
    if session.queues.set_queue_options(queue, paused=False) == "changed":
        return f"Queue {queue} is resumed."
    return f"Queue {queue} was not paused."


def _ask_retention(database: Database, given: FormValues) -> Question:
    queue = given.text("queue")
    database.read(lambda s: s.operations.queue_extent(queue))
    now = _options(database, queue).archive_retention
    return Question(
        f"Set how long queue {queue} keeps archived messages; now: {_FOREVER if now is None else duration(now)}.",
        (
            "Maintenance deletes archived messages that are older, in batches; they cannot be restored.",
        ),
        command("queue set", queue, "archive_retention=30d"),
    )


def _set_retention(session: PageSession, given: FormValues) -> str:
    queue, text = given.text("queue"), (given.find("retention") or "").strip()
    if not text:
        raise ArgumentError(f"retention is empty; write a duration such as 30d, or {_FOREVER}")
    kept = None if text == _FOREVER else given.duration("retention")
    session.queues.set_queue_options(queue, archive_retention=kept)
    return f"Queue {queue} keeps archived messages {_FOREVER if kept is None else f'for {duration(kept)}'}."


def _ask_unpark(database: Database, given: FormValues) -> Question:
    queue, key = given.text("queue"), given.text("key")
    blocked = {
        each.key: each
        for each in database.read(lambda s: s.operations.list_blocked_messages(queue))
        if each.reason == "parked"
    }
    waiting = ""
    if key in blocked:
        number = blocked[key].waiting
        waiting = f" Waiting: {'1 000 or more messages' if number >= 1000 else quantity(number, 'message')}."
    return Question(
        f"Unpark key {key} of queue {queue}: its messages are claimed again, in order.{waiting}",
        (
            "The message whose failure parked the key comes first. If it fails again, the key may be parked again.",
        ),
        command("queue retry", queue, key=key),
    )


def _unpark(session: PageSession, given: FormValues) -> str:
    queue, key = given.text("queue"), given.text("key")
    if session.operations.unpark_messages(queue, key):
        return f"Key {key} of queue {queue} is unparked."
    return f"Key {key} of queue {queue} was not parked."


ACTS = (
    Act(
        name="send",
        title="Send a message",
        arguments=("queue",),
        functions=("pgmq.send(text,jsonb,jsonb,integer)", NOTE),
        ask=_ask_send,
        back=_back,
        run=_send,
        fields=(
            Field(
                "message", "Message", "A JSON value.", is_long=True, is_required=True, value="{}"
            ),
            Field("headers", "Headers", "A JSON object, or empty."),
            Field("delay", "Delay", "Time until it is visible: 0, 30s, 5m, 2h.", value="0"),
        ),
    ),
    Act(
        name="purge_queue",
        title="Purge the queue",
        arguments=("queue",),
        functions=("sluice.purge_messages(text,bigint,bigint,integer)", NOTE),
        ask=_ask_purge,
        back=_back,
        step=_purge,
        done="deleted",
        choices=("upto_msg_id",),
        is_destructive=True,
    ),
    Act(
        name="pause_queue",
        title="Pause the queue",
        arguments=("queue",),
        functions=("sluice.set_queue_options(text,jsonb,text)",),
        ask=_ask_pause,
        back=_back,
        run=_pause,
        fields=(Field("reason", "Reason", "Shown with the pause, and in the audit."),),
    ),
    Act(
        name="resume_queue",
        title="Resume the queue",
        arguments=("queue",),
        functions=("sluice.set_queue_options(text,jsonb,text)",),
        ask=_ask_resume,
        back=_back,
        run=_resume,
    ),
    Act(
        name="set_retention",
        title="Set the retention",
        arguments=("queue",),
        functions=("sluice.set_queue_options(text,jsonb,text)",),
        ask=_ask_retention,
        back=_back,
        run=_set_retention,
        fields=(
            Field(
                "retention",
                "Keep archived messages for",
                f"12h, 30d, 4w, or {_FOREVER}.",
                is_required=True,
            ),
        ),
    ),
    Act(
        name="unpark_messages",
        title="Unpark the key",
        arguments=("queue", "key"),
        functions=("sluice.unpark_key(text,text)",),
        ask=_ask_unpark,
        back=_back,
        run=_unpark,
    ),
)
