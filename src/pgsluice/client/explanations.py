"""Sentences and commands for the rows of the explain functions.

A row has a section, a word for the fact (`cause`) and its values. The values of the first row, which names the object,
are known to all sentences of an explanation.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from pgsluice.client.explain_records import ExplainedFact
from pgsluice.client.sentences import Values, is_absent, sentence
from pgsluice.commands import command


def explained(rows: Sequence[tuple[Any, ...]]) -> list[ExplainedFact]:
    """Return the rows of an explanation as records.

    Args:
        rows: Section, time, word and values of each fact, in order; the first names the object.
    """
    subject = rows[0][3]
    return [_fact(subject, *row) for row in rows]


def _fact(
    subject: dict[str, Any], section: Any, at: datetime | None, cause: str, detail: dict[str, Any]
) -> ExplainedFact:
    values = Values({**subject, **detail})
    fill = _COMMANDS.get((section, cause))
    shell = None if fill is None else fill(values)
    return ExplainedFact(
        section,
        at,
        cause,
        sentence(section, cause, values),
        () if shell is None else (shell,),
        detail,
    )


def _run(name: str, *parts: str) -> Callable[[Values], str | None]:
    """Return a function that fills a command with values; it returns None if one of them is hidden."""

    def filled(values: Values) -> str | None:
        found = [values.get(part[1:-1]) if part.startswith("{") else part for part in parts]
        return None if None in found else command(name, *map(str, found))

    return filled


_unregister = _run("log unregister", "{log_name}", "{consumer_name}")

_COMMANDS: dict[tuple[str, str], Callable[[Values], str | None]] = {
    ("history", "dead letters"): _run("dead-letters list", "{queue_name}"),
    ("reason", "paused"): _run("queue set", "{queue_name}", "paused=false"),
    ("reason", "back-off"): _run("queue retry", "{queue_name}", "{msg_id}"),
    ("reason", "poison message"): _run("queue archive", "{queue_name}", "{msg_id}"),
    ("reason", "keys parked"): _run("queue show", "{queue_name}"),
    ("reason", "no worker"): lambda d: shlex.join(
        ["pgsluice", "worker", "run", "MODULE:APP", "--queues", d.source.split(" ")[1]]
    ),
    ("reason", "key parked"): lambda d: (
        None if d.key is None else command("queue retry", d.queue_name, key=d.key)
    ),
    ("reason", "group key parked"): _run("group unpark", "{log_name}", "{group_name}", "{key}"),
    ("reason", "ticker paused"): _run("log set", "{log_name}", "ticker_paused=false"),
    ("reason", "maintenance"): lambda d: "pgsluice maintain" if d.session is None else None,
    ("reason", "position lost"): _unregister,
    ("reason", "consumer lag"): lambda d: _unregister(d) if is_absent(d) else None,
    ("reason", "schedule paused"): _run("schedule set", "{name}", "paused=false"),
    ("next", "dead letter"): _run("dead-letters redrive", "{queue_name}", "{dead_letter_id}"),
}
