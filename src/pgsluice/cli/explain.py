"""`pgsluice explain`: the state, history, reasons and next changes of messages, logs, consumers, keys and schedules."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
import psycopg

from pgsluice.cli.clients import (
    naming_missing_group,
    naming_missing_log,
    naming_missing_queue,
    naming_missing_schedule,
)
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    FreeText,
    dsn_option,
    group_argument,
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
    "reason": "Why it is not running now",
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
                commands = fact.detail.get("commands", [fact.detail.get("command")])
                for command in filter(None, commands[:_COMMANDS_MAX]):
                    echo(f"      {command}")
    if facts[0].detail.get("state") in ("gone", "unknown"):
        sys.exit(EXIT_DIFFERENCE)


def _explain(
    dsn: str | None,
    as_json: bool,
    naming_missing: AbstractContextManager[None],
    read: Callable[[psycopg.Connection[Any]], list[ExplainedFact]],
) -> None:
    """Print the facts about an object, and those about its server and database."""
    open_one = partial(connect, resolve(dsn), autocommit=True)
    # On one connection, as a second one may be refused.
    with open_one() as connection:
        with naming_missing:
            facts = read(connection)
        facts += server_facts(connection, after=len(facts), reconnect=open_one)
    _print(facts, as_json)


@click.group()
def explain() -> None:
    """Explain why a message, queue or consumer is not running.

    Prints its state, its history, the reasons why it is not running now, what happens next, and known causes of trouble
    in the server and the database. Reads no contents, and needs only the role sluice_monitor, which sees no keys and no
    error texts. Exits with 1 if the id does not exist.
    """


@explain.command()
@name_argument
@click.argument("msg_id", type=int)
@json_option
@dsn_option
def message(queue_name: str, msg_id: int, as_json: bool, dsn: str | None) -> None:
    """Explain a message of a queue: delay, lease, retries, blocked key, limits, archive, dead letter."""
    _explain(
        dsn,
        as_json,
        naming_missing_queue(queue_name),
        lambda c: Operations(c).explain_message(queue_name, msg_id),
    )


@explain.command()
@name_argument
@json_option
@dsn_option
def queue(queue_name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a queue: its messages by state, and why none is claimed."""
    _explain(
        dsn,
        as_json,
        naming_missing_queue(queue_name),
        lambda c: Operations(c).explain_queue(queue_name),
    )


@explain.command()
@log_argument
@click.argument("ev_id", type=int)
@json_option
@dsn_option
def event(queue_name: str, ev_id: int, as_json: bool, dsn: str | None) -> None:
    """Explain an event of a log: which consumers and share groups have finished it, and which have not, and why."""
    _explain(
        dsn,
        as_json,
        naming_missing_log(queue_name),
        lambda c: EventLog(c).explain_event(queue_name, ev_id),
    )


@explain.command()
@log_argument
@json_option
@dsn_option
def log(queue_name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a log: its newest event and tick, and which consumers are behind, and why."""
    _explain(
        dsn, as_json, naming_missing_log(queue_name), lambda c: EventLog(c).explain_log(queue_name)
    )


@explain.command()
@log_argument
@consumer_argument
@json_option
@dsn_option
def consumer(queue_name: str, consumer_name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a consumer of a log: its position, and why it has not read the newest events."""
    _explain(
        dsn,
        as_json,
        naming_missing_log(queue_name),
        lambda c: EventLog(c).explain_consumer(queue_name, consumer_name),
    )


@explain.command()
@log_argument
@group_argument
@json_option
@dsn_option
def group(queue_name: str, group_name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a share group: its open claims and their leases, and why events are not claimed."""
    _explain(
        dsn,
        as_json,
        naming_missing_group(queue_name, group_name),
        lambda c: ShareGroup(c, queue_name, group_name).explain(),
    )


@explain.command()
@click.argument("queue_name", metavar="QUEUE|LOG")
@click.argument("key", type=FreeText())
@click.option("--group", "group_name", metavar="GROUP", help="Share group of a log.")
@json_option
@dsn_option
def key(queue_name: str, key: str, group_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Explain a key of a queue (header x-pgmq-group), or with --group of a share group.

    Requires the role sluice_reader, as keys are parts of messages.
    """
    if group_name is None:
        _explain(
            dsn,
            as_json,
            naming_missing_queue(queue_name),
            lambda c: Operations(c).explain_key(queue_name, key),
        )
    else:
        _explain(
            dsn,
            as_json,
            naming_missing_group(queue_name, group_name),
            lambda c: ShareGroup(c, queue_name, group_name).explain_key(key),
        )


@explain.command()
@click.argument("name")
@json_option
@dsn_option
def schedule(name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a schedule: its next and last slot, and why it did not fire: paused, failing, late."""
    _explain(dsn, as_json, naming_missing_schedule(), lambda c: Schedules(c).explain_schedule(name))


@explain.command()
@log_argument
@consumer_argument
@json_option
@dsn_option
def pipeline(queue_name: str, consumer_name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a pipeline into the lake: whether it runs, its last commit, and why it is behind."""
    _explain(
        dsn,
        as_json,
        naming_missing_log(queue_name),
        lambda c: with_tables(
            EventLog(c).explain_pipeline(queue_name, consumer_name), queue_name, dsn
        ),
    )
