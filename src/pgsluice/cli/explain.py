"""`pgsluice explain`: the state, history, reasons and next changes of messages, logs, consumers, keys and schedules."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from pgsluice.cli.clients import event_log, open_schedules, share_group, work_queue
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
from pgsluice.client import ExplainedFact

_TITLES = {
    "state": "State",
    "history": "History",
    "reason": "Why it is not running now",
    "next": "Next",
}
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
            click.echo(f"{_TITLES[section]}:")
            for fact in members:
                time = (
                    ""
                    if fact.at is None
                    else f": {fact.at.isoformat(sep=' ', timespec='seconds')}, {_distance(fact.at, now)}"
                )
                click.echo(f"  {fact.fact}{time}")
                if "command" in fact.detail:
                    click.echo(f"      {fact.detail['command']}")
    if facts[0].detail.get("state") in ("gone", "unknown"):
        sys.exit(EXIT_DIFFERENCE)


@click.group()
def explain() -> None:
    """Explain why a message, queue or consumer is not running.

    Prints its state, its history, the reasons why it is not running now, and what happens next. Reads no contents, and
    needs only the role sluice_monitor, which sees neither keys nor error texts. Exits with 1 if the id does not exist.
    """


@explain.command()
@name_argument
@click.argument("msg_id", type=int)
@json_option
@dsn_option
def message(queue_name: str, msg_id: int, as_json: bool, dsn: str | None) -> None:
    """Explain a message of a queue: delay, lease, retries, blocked key, limits, archive, dead letter."""
    with work_queue(dsn, queue_name) as work:
        facts = work.explain_message(queue_name, msg_id)
    _print(facts, as_json)


@explain.command()
@name_argument
@json_option
@dsn_option
def queue(queue_name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a queue: its messages by state, and why none is claimed."""
    with work_queue(dsn, queue_name) as work:
        facts = work.explain_queue(queue_name)
    _print(facts, as_json)


@explain.command()
@log_argument
@click.argument("ev_id", type=int)
@json_option
@dsn_option
def event(queue_name: str, ev_id: int, as_json: bool, dsn: str | None) -> None:
    """Explain an event of a log: which consumers and share groups have finished it, and which have not, and why."""
    with event_log(dsn, queue_name) as events:
        facts = events.explain_event(queue_name, ev_id)
    _print(facts, as_json)


@explain.command()
@log_argument
@json_option
@dsn_option
def log(queue_name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a log: its newest event and tick, and which consumers are behind, and why."""
    with event_log(dsn, queue_name) as events:
        facts = events.explain_log(queue_name)
    _print(facts, as_json)


@explain.command()
@log_argument
@consumer_argument
@json_option
@dsn_option
def consumer(queue_name: str, consumer_name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a consumer of a log: its position, and why it has not read the newest events."""
    with event_log(dsn, queue_name) as events:
        facts = events.explain_consumer(queue_name, consumer_name)
    _print(facts, as_json)


@explain.command()
@log_argument
@group_argument
@json_option
@dsn_option
def group(queue_name: str, group_name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a share group: its open claims and their leases, and why events are not claimed."""
    with share_group(dsn, queue_name, group_name) as shared:
        facts = shared.explain()
    _print(facts, as_json)


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
        with work_queue(dsn, queue_name) as work:
            facts = work.explain_key(queue_name, key)
    else:
        with share_group(dsn, queue_name, group_name) as shared:
            facts = shared.explain_key(key)
    _print(facts, as_json)


@explain.command()
@click.argument("name")
@json_option
@dsn_option
def schedule(name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a schedule: its next and last slot, and why it did not fire: paused, failing, late."""
    with open_schedules(dsn) as schedules:
        facts = schedules.explain_schedule(name)
    _print(facts, as_json)


@explain.command()
@log_argument
@consumer_argument
@json_option
@dsn_option
def pipeline(queue_name: str, consumer_name: str, as_json: bool, dsn: str | None) -> None:
    """Explain a pipeline into the lake: whether it runs, its last commit, and why it is behind."""
    with event_log(dsn, queue_name) as events:
        facts = events.explain_pipeline(queue_name, consumer_name)
    _print(facts, as_json)
