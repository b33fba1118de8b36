"""`pgsluice log consume`: the events of a log as JSON lines, batch by batch."""

from __future__ import annotations

import sys
from typing import Any

import click
import psycopg

from pgsluice.cli.clients import naming_the_way_out, one_connection
from pgsluice.cli.options import dsn_option, json_lines_option, log_argument
from pgsluice.cli.output import print_lines
from pgsluice.cli.signals import stop_on_signals
from pgsluice.connection import connect, for_writing, resolve
from pgsluice.errors import ConsumerNotFoundError
from pgsluice.worker import EventBatch, EventConsumer


@click.command()
@log_argument
@click.argument("consumer_name", metavar="CONSUMER")
@click.option("--follow", is_flag=True, help="Go on when there is nothing more, until Ctrl-C.")
@click.option(
    "--register",
    is_flag=True,
    help="Register the consumer if it is not, from the latest tick on. The log keeps events for it from then on.",
)
@click.option(
    "--subconsumer",
    "subconsumer_name",
    metavar="NAME",
    help="Take a share of the consumer's batches, beside its other subconsumers.",
)
@click.option(
    "--batches",
    "batches_max",
    type=click.IntRange(min=1),
    help="End after so many tick batches.  [default: all there are]",
)
@json_lines_option
@dsn_option
def consume(
    queue_name: str,
    consumer_name: str,
    follow: bool,
    register: bool,
    subconsumer_name: str | None,
    batches_max: int | None,
    dsn: str | None,
) -> None:
    """Print events, each batch of them in the order of ev_id, and finish each batch behind its last line.

    Whatever ends it before, the batch comes again as a whole. Events come with the tick that follows them: see
    `pgsluice maintain` and `pgsluice log tick`.
    """
    if follow and batches_max is not None:
        raise click.UsageError("--batches goes without --follow")
    target = for_writing(resolve(dsn))
    connect(target).close()  # fails at once, and says where, when there is nobody to connect to
    with one_connection(target) as pool:
        consumer = EventConsumer(
            pool,
            queue_name,
            consumer_name,
            on_batch=_print,
            register=register,
            subconsumer_name=subconsumer_name,
        )
        try:
            with naming_the_way_out(queue_name), stop_on_signals() as stop:
                if follow:
                    consumer.run(stop)
                    return
                left = batches_max
                while not stop.is_set() and left != 0 and consumer.run_once() is not None:
                    left = None if left is None else left - 1
        except ConsumerNotFoundError as error:
            raise ConsumerNotFoundError(
                f"consumer {consumer_name!r} is not registered on log {queue_name!r}; add --register, or see "
                f"`pgsluice log consumers {queue_name}`",
                sqlstate=error.sqlstate,
            ) from error


def _print(_connection: psycopg.Connection[Any], batch: EventBatch) -> None:
    print_lines(batch.events())
    sys.stdout.flush()  # before the batch is finished
