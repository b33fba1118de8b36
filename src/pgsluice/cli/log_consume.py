"""`pgsluice log consume`: print the events of a log as JSON lines, batch by batch."""

from __future__ import annotations

import sys
from typing import Any

import click
import psycopg

from pgsluice.cli.clients import one_connection
from pgsluice.cli.options import dsn_option, json_lines_option, log_argument
from pgsluice.cli.output import print_lines
from pgsluice.cli.signals import stop_on_signals
from pgsluice.client import EventLog
from pgsluice.connection import connect, for_writing, resolve
from pgsluice.errors import ConsumerNotFoundError, LogNotFoundError
from pgsluice.worker import EventBatch, EventConsumer


@click.command()
@log_argument
@click.argument("consumer_name", metavar="CONSUMER")
@click.option("--follow", is_flag=True, help="Wait for new batches, until Ctrl-C.")
@click.option(
    "--register",
    is_flag=True,
    help="Register the consumer at the latest tick if it is not registered. The log then keeps events for it.",
)
@click.option(
    "--subconsumer",
    "subconsumer_name",
    metavar="NAME",
    help="Share the consumer's batches with its other subconsumers, under this name.",
)
@click.option(
    "--batches",
    "batches_max",
    type=click.IntRange(min=1),
    help="Maximum number of batches.  [default: all available]",
)
@json_lines_option
@dsn_option
def consume(
    log_name: str,
    consumer_name: str,
    follow: bool,
    register: bool,
    subconsumer_name: str | None,
    batches_max: int | None,
    dsn: str | None,
) -> None:
    """Consume events in batches and print them as JSON lines.

    Prints a batch in order of ev_id, then finishes it: the position of the consumer moves to its end. To look at events
    without affecting an application, use a consumer name of your own, and unregister it afterwards: until then the log
    keeps all later events for it. An interrupted batch is redelivered as a whole. Events become readable with the next
    tick: see `pgsluice maintain` and `pgsluice log tick`.
    """
    if follow and batches_max is not None:
        raise click.UsageError("--batches and --follow are mutually exclusive")
    target = for_writing(resolve(dsn))
    connect(target).close()  # fail early if the server cannot be reached
    with one_connection(target) as pool:
        consumer = EventConsumer(
            pool,
            log_name,
            consumer_name,
            on_batch=_print,
            register=register,
            subconsumer_name=subconsumer_name,
        )
        try:
            with stop_on_signals() as stop:
                if follow:
                    consumer.run(stop)
                    return
                left = batches_max
                while not stop.is_set() and left != 0 and consumer.run_once() is not None:
                    left = None if left is None else left - 1
        except ConsumerNotFoundError as error:
            if not EventLog(pool).get_queue_info(log_name):
                raise LogNotFoundError(names=(log_name,)) from error
            raise ConsumerNotFoundError(
                f"consumer {consumer_name!r} is not registered on event log {log_name!r}; add --register, or list "
                f"the consumers with: pgsluice log consumers {log_name}",
                sqlstate=error.sqlstate,
            ) from error


def _print(_connection: psycopg.Connection[Any], batch: EventBatch) -> None:
    print_lines(batch.events())
    sys.stdout.flush()  # before the batch is finished
