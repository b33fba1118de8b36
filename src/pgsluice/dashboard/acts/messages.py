"""Acts on messages of a work queue: retry now or later, archive, delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from pgsluice.client import StoredMessage
from pgsluice.commands import command
from pgsluice.dashboard.acts.act import NOTE, Act, Field, Link, Question
from pgsluice.dashboard.acts.given import FormValues
from pgsluice.dashboard.database import Database, PageSession
from pgsluice.dashboard.rendering import duration, quantity
from pgsluice.errors import ArgumentError

_READ = "If a worker is processing it now, that worker may still finish it."
_READ_SOME = "Workers that are processing some of them now may still finish them."


def _back(given: FormValues) -> Link:
    queue, ids = given.text("queue"), _ids(given)
    if len(ids) > 1:
        return _back_to_queue(given)
    return Link("message", {"queue": queue, "msg_id": ids[0]}, f"Message {ids[0]} of queue {queue}")


def _back_to_queue(given: FormValues) -> Link:
    queue = given.text("queue")
    return Link("messages", {"queue": queue}, f"Messages of queue {queue}")


def _ids(given: FormValues) -> list[int]:
    given.text("msg_id")
    return given.find_ids("msg_id") or []


def _ask(
    database: Database,
    given: FormValues,
    sentence: Callable[[str, str], str],
    verb: str,
    *details: str,
) -> Question:
    """Ask about the messages that are in the queue, or say why nothing can be done.

    Args:
        database: The database.
        given: The queue and the ids.
        sentence: Returns the question, of the messages in words, and of `it is` or `they are`.
        verb: The command.
        details: What to know before.
    """
    queue, ids = given.text("queue"), _ids(given)

    def read(session: PageSession) -> list[StoredMessage]:
        session.operations.queue_extent(queue)
        return session.queues.get_messages(queue, ids)

    found = database.read(read)
    queued = [each for each in found if each.state not in ("archived", "dead")]
    shell = command(f"queue {verb}", queue, *(str(each.msg_id) for each in queued))
    if len(ids) == 1 and queued:
        which = f"message {ids[0]} of queue {queue}"
        return Question(sentence(which, "it is"), (*_state(queued[0]), *details), shell)
    if queued:
        which = f"{quantity(len(queued), 'message')} of queue {queue}"
        return Question(sentence(which, "they are"), (*_states(queued, ids), *details), shell)
    if len(ids) > 1:
        return Question(
            f"None of the {len(ids)} selected messages is in queue {queue} any more.",
            is_possible=False,
        )
    where = f"it is {found[0].state}" if found else "it was deleted, or never existed"
    return Question(f"Message {ids[0]} is not in queue {queue}: {where}.", is_possible=False)


def _state(message: StoredMessage) -> tuple[str, ...]:
    read = f", read {quantity(message.read_ct, 'time')}" if message.read_ct else ""
    state = f"It is {message.state} now{read}."
    return (state, _READ) if message.state == "in flight" else (state,)


def _states(queued: list[StoredMessage], ids: list[int]) -> list[str]:
    """Return the ids, the number in each state, and how many are no longer there."""
    states = Counter(each.state for each in queued)
    details = [
        f"Selected: {', '.join(str(each.msg_id) for each in queued)}.",
        f"Now: {', '.join(f'{number} {state}' for state, number in states.items())}.",
    ]
    if "in flight" in states:
        details.append(_READ_SOME)
    if len(queued) < len(ids):
        details.append(f"{len(ids) - len(queued)} of {len(ids)} selected left the queue.")
    return details


def _note(
    session: PageSession, given: FormValues, action: str, found: list[int], done: str, **chosen: int
) -> str:
    """Record what was done with the messages found, and return it in a sentence."""
    queue, ids = given.text("queue"), _ids(given)
    if found:
        session.operations.note_action(
            action,
            queue_name=queue,
            of_filter={"msg_ids": found, **chosen},
            message_count=len(found),
        )
    if len(ids) > 1:
        are = "is" if len(found) == 1 else "are"
        return f"{len(found)} of {quantity(len(ids), 'message')} of queue {queue} {are} {done}."
    if not found:
        return f"Message {ids[0]} was no longer in queue {queue}."
    return f"Message {ids[0]} of queue {queue} is {done}."


def _ask_retry(database: Database, given: FormValues) -> Question:
    return _ask(
        database,
        given,
        lambda which, they_are: f"Make {which} visible, so that {they_are} delivered again.",
        "retry",
        "Attempts are still counted.",
    )


def _retry(session: PageSession, given: FormValues) -> str:
    delay = given.duration("delay")
    if delay % timedelta(seconds=1):
        raise ArgumentError("delay is not in whole seconds; use whole seconds")
    seconds = round(delay.total_seconds())
    found = session.queues.set_vt_batch(given.text("queue"), _ids(given), seconds)
    done = f"visible {f'in {duration(delay)}' if seconds else 'now'}"
    return _note(session, given, "set_vt", [each.msg_id for each in found], done, vt=seconds)


def _ask_archive(database: Database, given: FormValues) -> Question:
    return _ask(
        database,
        given,
        lambda which, they_are: f"Archive {which}: {they_are} not delivered again.",
        "archive",
    )


def _archive(session: PageSession, given: FormValues) -> str:
    found = session.queues.archive_batch(given.text("queue"), _ids(given))
    return _note(session, given, "archive", found, "archived")


def _ask_delete(database: Database, given: FormValues) -> Question:
    return _ask(
        database,
        given,
        lambda which, _: f"Delete {which} permanently.",
        "delete",
        "What is deleted is not archived, and cannot be restored.",
    )


def _delete(session: PageSession, given: FormValues) -> str:
    found = session.queues.delete_batch(given.text("queue"), _ids(given))
    return _note(session, given, "delete", found, "deleted")


ACTS = (
    Act(
        name="retry_message",
        title="Retry messages",
        arguments=("queue", "msg_id"),
        functions=("pgmq.set_vt(text,bigint[],integer)", NOTE),
        ask=_ask_retry,
        back=_back,
        run=_retry,
        fields=(Field("delay", "Delay", "Time until it is visible: 0, 30s, 5m, 2h.", value="0"),),
        ids="msg_id",
    ),
    Act(
        name="archive_message",
        title="Archive messages",
        arguments=("queue", "msg_id"),
        functions=("pgmq.archive(text,bigint[])", NOTE),
        ask=_ask_archive,
        back=_back,
        run=_archive,
        ids="msg_id",
    ),
    Act(
        name="delete_message",
        title="Delete messages",
        arguments=("queue", "msg_id"),
        functions=("pgmq.delete(text,bigint[])", NOTE),
        ask=_ask_delete,
        back=_back_to_queue,
        run=_delete,
        is_destructive=True,
        ids="msg_id",
    ),
)
