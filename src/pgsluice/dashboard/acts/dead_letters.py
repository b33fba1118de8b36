"""Acts on dead letters of a queue, share group or consumer, those that a filter matches: redrive and purge."""

from __future__ import annotations

from datetime import datetime

from pgsluice.client import DeadLetters
from pgsluice.client.calls import acts
from pgsluice.commands import command
from pgsluice.dashboard.acts.act import Act, Link, Question, Step
from pgsluice.dashboard.acts.counts import COUNTED_MAX, counted
from pgsluice.dashboard.acts.given import FormValues
from pgsluice.dashboard.database import Database, PageSession
from pgsluice.dashboard.rendering import quantity, whose
from pgsluice.errors import ConsumerNotFoundError

# Redriven messages are written to the queue's table and its write-ahead log, whatever their size.
_REDRIVEN_EACH = 500
_PURGED_EACH = 5_000
# The pattern of an error, or the text of a payload, takes longer to find than a letter to read.
_COUNTED_BY_ERROR = 1_000
_CHOICES = (
    "consumer",
    "reason",
    "error_type",
    "error",
    "matching",
    "since",
    "until",
    "dead_letter_id",
)


def _whose(given: FormValues) -> str:
    """Return whose dead letters they are, in words."""
    return whose(given.text("queue"), given.find("consumer"))


def _back(given: FormValues) -> Link:
    place = {"queue": given.text("queue"), "consumer": given.find("consumer")}
    return Link("dead_letters", place, f"Dead letters of {_whose(given)}")


def _letters(session: PageSession, given: FormValues) -> DeadLetters:
    return session.dead_letters(given.text("queue"), given.find("consumer"))


def _ids(session: PageSession, given: FormValues, after_id: int | None, qty: int) -> list[int]:
    """Return the next ids that the filter matches."""
    found = _letters(session, given).browse(
        after_dead_letter_id=after_id,
        qty=qty,
        dead_letter_ids=given.find_ids("dead_letter_id"),
        since=given.find_time("since"),
        until=given.find_time("until"),
        reason=given.find("reason"),
        error_type=given.find_exactly("error_type"),
        error=given.find_exactly("error"),
        matching=given.find("matching"),
        with_contents=False,
    )
    return [each.dead_letter_id for each in found]


def _filter(given: FormValues) -> str:
    """Return the filter in words; empty texts stand for no error type and no error."""
    chosen = {"reason": given.find("reason")}
    chosen |= {name: given.find_exactly(name) for name in ("error_type", "error")}
    parts = [
        f"with {name.replace('_', ' ')} {value}" if value else f"without {name.replace('_', ' ')}"
        for name, value in chosen.items()
        if value is not None
    ]
    if matching := given.find("matching"):
        parts.append(f"that match {matching}")
    since = given.find_time("since")
    if since is not None:
        parts.append(f"since {since:%Y-%m-%d %H:%M:%S %Z}")
    return f" {', '.join(parts)}" if parts else ""


def _question(
    database: Database, given: FormValues, verb: str, end: str, *details: str, shell: str | None
) -> Question:
    holder, chosen = _whose(given), given.find_ids("dead_letter_id")
    until = given.find_time("until") or _now(database)
    counted_max = (
        _COUNTED_BY_ERROR if given.find("error") or given.find("matching") else COUNTED_MAX
    )
    # Before they are counted: what is dead-lettered meanwhile is not of this question.
    frozen = FormValues(given.values | {"until": until.isoformat()}, {*given.values, "until"})
    read = database.part(
        lambda s: _ids(s, frozen, None, counted_max + 1),
        "dead letter ids",
        *sorted(frozen.values.items()),
    )
    if read.value is None and not read.is_timeout:
        return Question(read.problem or "", is_possible=False)
    number = None if read.value is None else len(read.value)
    frozen_until = {"until": until.isoformat()}
    if chosen is not None and not read.value:
        ids = ", ".join(map(str, chosen))
        sentence = f"Dead letter {ids} of {holder} does not exist, or no longer."
        return Question(sentence, is_possible=False)
    if chosen is not None:
        found = read.value or []
        which, selected = _which(chosen, found)
        details = (*details[:1], *selected)
        sentence = f"{verb} {which} of {holder}{end}."
        return Question(sentence, details, shell, frozen_until, len(found))
    what = f"dead letters of {holder}{_filter(given)}"
    if number == 0:
        return Question(f"There are no {what}.", is_possible=False)
    return Question(
        f"{verb} {counted(number, _noun(given), counted_max=counted_max)} of the {what}{end}.",
        (
            *details,
            f"{_noun(given).capitalize()}s that are dead-lettered after {until:%Y-%m-%d %H:%M:%S %Z} stay.",
        ),
        shell,
        frozen_until,
        None if number is not None and number > counted_max else number,
    )


def _which(chosen: list[int], found: list[int]) -> tuple[str, tuple[str, ...]]:
    """Return in words the dead letters that a person has selected, as far as they exist, and what to know of them."""
    if len(chosen) == 1:
        return f"dead letter {chosen[0]}", ()
    selected = f"Selected: {', '.join(map(str, found))}."
    if len(found) == len(chosen):
        return quantity(len(found), "dead letter"), (selected,)
    gone = f"{len(chosen) - len(found)} of {len(chosen)} selected no longer exist."
    return quantity(len(found), "dead letter"), (selected, gone)


def _now(database: Database) -> datetime:
    return database.read(lambda s: s.run(acts.rights(()))).now


def _noun(given: FormValues) -> str:
    return "message" if given.find("consumer") is None else "event"


def _command(verb: str, given: FormValues, *arguments: str, **options: str | None) -> str:
    return command(
        f"dead-letters {verb}",
        given.text("queue"),
        *arguments,
        **({"consumer": given.find("consumer")} | options),
    )


def _ask_redrive(database: Database, given: FormValues) -> Question:
    queue, consumer, chosen = (
        given.text("queue"),
        given.find("consumer"),
        given.find_ids("dead_letter_id"),
    )
    if consumer is None:
        end, origin = (
            ": each becomes a new message of the queue",
            ", and the header x-pgmq-replayed-from has the origin",
        )
        database.read(lambda s: s.operations.queue_extent(queue))
    else:
        end, origin = f": each becomes a new event for {consumer} alone", ""
        if all(
            each.consumer_name != consumer
            for each in database.read(lambda s: s.logs.list_consumers(queue))
        ):
            raise ConsumerNotFoundError(
                f"log {queue!r} has neither a share group nor a consumer {consumer!r}; redrive its dead letters into a "
                "queue with: pgsluice dead-letters redrive --into"
            )
    if chosen:
        shell: str | None = _command("redrive", given, *map(str, chosen))
    elif given.find_exactly("error") is not None or given.find_exactly("error_type") == "":
        shell = None  # the command has no option for it
    else:
        options = {
            name: given.find(name)
            for name in ("reason", "error_type", "matching", "since", "until")
        }
        every = "" if any(options.values()) else " --all"
        shell = _command(f"redrive{every}", given, **options)
    return _question(database, given, "Redrive", end, f"Attempts start at 0{origin}.", shell=shell)


def _redrive(session: PageSession, given: FormValues, after_id: int | None) -> Step:
    ids = _ids(session, given, after_id, _REDRIVEN_EACH)
    if not ids:
        return Step(0, None)
    return Step(len(_letters(session, given).redrive(ids)), ids[-1])


def _ask_purge(database: Database, given: FormValues) -> Question:
    chosen = given.find_ids("dead_letter_id")
    shell = _command("purge", given, *map(str, chosen)) if chosen else None
    if not chosen and not any(
        given.find_exactly(name) for name in ("reason", "error_type", "error", "matching")
    ):
        shell = _command("purge", given, older_than="0")
    return _question(
        database, given, "Delete", " permanently", "They cannot be restored.", shell=shell
    )


def _purge(session: PageSession, given: FormValues, after_id: int | None) -> Step:
    ids = _ids(session, given, after_id, _PURGED_EACH)
    if not ids:
        return Step(0, None)
    number = _letters(session, given).purge(dead_letter_ids=ids, qty=len(ids))
    return Step(number, ids[-1])


ACTS = (
    Act(
        name="redrive",
        title="Redrive dead letters",
        arguments=("queue",),
        functions=("sluice.redrive(text,text,jsonb,text,bigint,integer)",),
        ask=_ask_redrive,
        back=_back,
        step=_redrive,
        done="redriven",
        choices=_CHOICES,
        ids="dead_letter_id",
    ),
    Act(
        name="purge_dead_letters",
        title="Purge dead letters",
        arguments=("queue",),
        functions=("sluice.purge_dead_letters(text,text,interval,bigint[],integer)",),
        ask=_ask_purge,
        back=_back,
        step=_purge,
        done="deleted",
        choices=_CHOICES,
        is_destructive=True,
        ids="dead_letter_id",
    ),
)
