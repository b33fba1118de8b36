"""Acts on one message of a work queue: retry now or later, archive, delete."""

from __future__ import annotations

from datetime import timedelta

from pgsluice.client import StoredMessage
from pgsluice.commands import command
from pgsluice.dashboard.acts.act import NOTE, Act, Field, Link, Question
from pgsluice.dashboard.acts.given import FormValues
from pgsluice.dashboard.database import Database, PageSession
from pgsluice.dashboard.rendering import duration, quantity
from pgsluice.errors import ArgumentError

_READ = "If a worker is processing it now, that worker may still finish it."


def _back(given: FormValues) -> Link:
    queue, msg_id = given.text("queue"), given.number("msg_id")
    return Link("message", {"queue": queue, "msg_id": msg_id}, f"Message {msg_id} of queue {queue}")


def _back_to_queue(given: FormValues) -> Link:
    queue = given.text("queue")
    return Link("messages", {"queue": queue}, f"Messages of queue {queue}")


def _find(database: Database, given: FormValues) -> tuple[StoredMessage | None, Question]:
    """Return the message if it is in the queue, and the question that says why nothing can be done."""
    queue, msg_id = given.text("queue"), given.number("msg_id")

    def read(session: PageSession) -> list[StoredMessage]:
        session.operations.queue_extent(queue)
        return session.queues.get_messages(queue, [msg_id])

    found = database.read(read)
    queued = [each for each in found if each.state not in ("archived", "dead")]
    if queued:
        return queued[0], Question("")
    where = f"it is {found[0].state}" if found else "it was deleted, or never existed"
    sentence = f"Message {msg_id} is not in queue {queue}: {where}."
    return None, Question(sentence, is_possible=False)


def _details(message: StoredMessage) -> tuple[str, ...]:
    read = f", read {quantity(message.read_ct, 'time')}" if message.read_ct else ""
    state = f"It is {message.state} now{read}."
    return (state, _READ) if message.state == "in flight" else (state,)


def _ask_retry(database: Database, given: FormValues) -> Question:
    message, question = _find(database, given)
    if message is None:
        return question
    return Question(
        f"Make message {message.msg_id} of queue {given.text('queue')} visible, so that it is delivered again.",
        (*_details(message), "Its attempts are still counted."),
    )


def _retry(session: PageSession, given: FormValues) -> str:
    queue, msg_id, delay = given.text("queue"), given.number("msg_id"), given.duration("delay")
    if delay % timedelta(seconds=1):
        raise ArgumentError("delay is not in whole seconds; use whole seconds")
    seconds = round(delay.total_seconds())
    if session.queues.set_vt(queue, msg_id, seconds) is None:
        return f"Message {msg_id} was no longer in queue {queue}."
    chosen = {"msg_id": msg_id, "vt": seconds}
    session.operations.note_action("set_vt", queue_name=queue, of_filter=chosen, message_count=1)
    return f"Message {msg_id} of queue {queue} is visible {f'in {duration(delay)}' if seconds else 'now'}."


def _ask_archive(database: Database, given: FormValues) -> Question:
    message, question = _find(database, given)
    if message is None:
        return question
    queue = given.text("queue")
    return Question(
        f"Archive message {message.msg_id} of queue {queue}: it is not delivered again.",
        _details(message),
        command("queue archive", queue, str(message.msg_id)),
    )


def _archive(session: PageSession, given: FormValues) -> str:
    queue, msg_id = given.text("queue"), given.number("msg_id")
    if not session.queues.archive(queue, msg_id):
        return f"Message {msg_id} was no longer in queue {queue}."
    session.operations.note_action(
        "archive", queue_name=queue, of_filter={"msg_id": msg_id}, message_count=1
    )
    return f"Message {msg_id} of queue {queue} is archived."


def _ask_delete(database: Database, given: FormValues) -> Question:
    message, question = _find(database, given)
    if message is None:
        return question
    queue = given.text("queue")
    return Question(
        f"Delete message {message.msg_id} of queue {queue} permanently.",
        (*_details(message), "It is not archived, and cannot be restored."),
        command("queue delete", queue, str(message.msg_id)),
    )


def _delete(session: PageSession, given: FormValues) -> str:
    queue, msg_id = given.text("queue"), given.number("msg_id")
    if not session.queues.delete(queue, msg_id):
        return f"Message {msg_id} was no longer in queue {queue}."
    session.operations.note_action(
        "delete", queue_name=queue, of_filter={"msg_id": msg_id}, message_count=1
    )
    return f"Message {msg_id} of queue {queue} is deleted."


ACTS = (
    Act(
        name="retry_message",
        title="Retry the message",
        arguments=("queue", "msg_id"),
        functions=("pgmq.set_vt(text,bigint,integer)", NOTE),
        ask=_ask_retry,
        back=_back,
        run=_retry,
        fields=(Field("delay", "Delay", "Time until it is visible: 0, 30s, 5m, 2h.", value="0"),),
    ),
    Act(
        name="archive_message",
        title="Archive the message",
        arguments=("queue", "msg_id"),
        functions=("pgmq.archive(text,bigint)", NOTE),
        ask=_ask_archive,
        back=_back,
        run=_archive,
    ),
    Act(
        name="delete_message",
        title="Delete the message",
        arguments=("queue", "msg_id"),
        functions=("pgmq.delete(text,bigint)", NOTE),
        ask=_ask_delete,
        back=_back_to_queue,
        run=_delete,
    ),
)
