"""`pgsluice explain`: the state, history, reasons and next changes of queues, logs, consumers and schedules."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
import psycopg

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    FreeText,
    dsn_option,
    json_option,
    log_argument,
    name_argument,
)
from pgsluice.cli.output import show
from pgsluice.cli.pipeline_status import with_tables
from pgsluice.cli.printing import echo
from pgsluice.client import EventLog, ExplainedFact, Operations, Schedules, ShareGroup
from pgsluice.connection import connect, resolve
from pgsluice.ops.doctor import server_facts

_TITLES = {
    "state": "State",
    "history": "History",
    "reason": "Now",
    "next": "Next",
    "server": "Server and database",
}
_COMMANDS_MAX = 3  # of a fact; --json prints all
consumer_argument = click.argument("consumer_name", metavar="CONSUMER")

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def _distance(at: datetime, now: datetime) -> str:
    """Return the time between two moments, such as `in 5 min` or `2 h ago`."""
    seconds = (at - now).total_seconds()
    text = next(
        (f"{abs(seconds) / size:.0f} {unit}" for size, unit in _UNITS if abs(seconds) >= size),
        f"{abs(seconds):.0f} s",
    )
    if abs(seconds) < 1:
        return "now"
    return f"in {text}" if seconds > 0 else f"{text} ago"


def _print(facts: Sequence[ExplainedFact], as_json: bool) -> None:
    """Print an explanation; exit with 1 if its object does not exist."""
    if as_json:
        show(facts, as_json=True, empty="")
    else:
        now = datetime.now(UTC)
        for section, members in itertools.groupby(facts, key=lambda fact: fact.section):
            echo(f"{_TITLES[section]}:")
            for fact in members:
                time = (
                    ""
                    if fact.at is None
                    else f": {fact.at.isoformat(sep=' ', timespec='seconds')}, {_distance(fact.at, now)}"
                )
                echo(f"  {fact.fact}{time}")
                for command in fact.commands[:_COMMANDS_MAX]:
                    echo(f"      {command}")
    if facts[0].detail.get("state") in ("gone", "unknown"):
        sys.exit(EXIT_DIFFERENCE)


def _explain(
    dsn: str | None,
    as_json: bool,
    read: Callable[[psycopg.Connection[Any]], list[ExplainedFact]],
) -> None:
    """Print the facts about an object, and those about its server and database."""
    open_one = partial(connect, resolve(dsn), autocommit=True)
    # On one connection, as a second one may be refused.
    with open_one() as connection:
        facts = read(connection)
        facts += server_facts(connection, reconnect=open_one)
    _print(facts, as_json)


@click.group()
def explain() -> None:
    """Explain why a queue, log, consumer or schedule is not running.

    Prints its state, its history, the reasons why it is not running now, what happens next, and known causes of trouble
    in the server and the database. Reads no contents, and needs only the role sluice_monitor, which sees no keys and no
    error texts. Exits with 1 if the id does not exist.
    """


@explain.command()
@name_argument
@click.argument("msg_id", type=int, required=False)
@click.option("--key", type=FreeText(), help="Explain a key instead (header x-pgmq-group).")
@json_option
@dsn_option
def queue(
    queue_name: str, msg_id: int | None, key: str | None, as_json: bool, dsn: str | None
) -> None:
    """Explain a queue, or one of its messages or keys.

    A queue: its messages by state, and why none is claimed. A message: delay, lease, retries, blocked key, limits,
    archive, dead letter. A key: its messages, and what blocks the first visible one; requires the role sluice_reader,
    as keys are parts of messages.
    """
    if msg_id is not None and key is not None:
        raise click.UsageError("give MSG_ID or --key, not both")

    def read(connection: psycopg.Connection[Any]) -> list[ExplainedFact]:
        operations = Operations(connection)
        if msg_id is not None:
            return operations.explain_message(queue_name, msg_id)
        if key is not None:
            return operations.explain_key(queue_name, key)
        return operations.explain_queue(queue_name)

    _explain(dsn, as_json, read)


@explain.command()
@log_argument
@click.argument("ev_id", type=int, required=False)
@json_option
@dsn_option
def log(log_name: str, ev_id: int | None, as_json: bool, dsn: str | None) -> None:
    """Explain a log, or one of its events.

    A log: its newest event and tick, and which consumers are behind, and why. An event: which consumers and share
    groups have finished it, and which have not, and why.
    """

    def read(connection: psycopg.Connection[Any]) -> list[ExplainedFact]:
        events = EventLog(connection)
        return (
            events.explain_log(log_name) if ev_id is None else events.explain_event(log_name, ev_id)
        )

    _explain(dsn, as_json, read)


@explain.command()
@log_argument
@consumer_argument
@click.option("--key", type=FreeText(), help="Explain a key of the share group instead.")
@json_option
@dsn_option
def consumer(
    log_name: str, consumer_name: str, key: str | None, as_json: bool, dsn: str | None
) -> None:
    """Explain a consumer of a log, which may be a share group or a pipeline into the lake.

    A consumer: its position, and why it has not read the newest events. A pipeline also: whether it runs, its last
    commit, and its tables if this machine can read its lake. A share group: its open claims and their leases, and why
    events are not claimed; with --key whether a key is claimed, waits or is parked, for which the role sluice_reader is
    required.
    """

    def read(connection: psycopg.Connection[Any]) -> list[ExplainedFact]:
        if key is not None:
            return ShareGroup(connection, log_name, consumer_name).explain_key(key)
        return with_tables(
            EventLog(connection).explain_consumer(log_name, consumer_name), log_name, dsn
        )

    _explain(dsn, as_json, read)


@explain.command()
@click.argument("name")
@json_option
@dsn_option
def schedule(name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a schedule: its next and last slot, and why it did not fire: paused, failing, late."""
    _explain(dsn, as_json, lambda c: Schedules(c).explain_schedule(name))
