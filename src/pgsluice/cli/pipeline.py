"""`pgsluice pipeline`: carry event logs, queues, archives and files into the lake, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pgsluice.cli.pipeline_shared import (
    carry,
    carry_kind,
    every_option,
    lake_option,
    run_options,
)
from pgsluice.cli.verify import verify
from pgsluice.spark.pipelines import config


class _Kinds(click.Group):
    """Each kind is a command; every other name is a section of a file."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _sections

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0].startswith("-") or args[0] in self.commands:
            return super().resolve_command(ctx, args)
        if not any(word.partition("=")[0] == "--config" for word in args):
            ctx.fail(
                f"there is no kind of pipeline {args[0]!r}, only {', '.join(self.commands)}; for a section "
                "of a file give it with --config FILE"
            )
        return args[0], _sections, args  # the word is the first of the sections


@click.group()
def pipeline() -> None:
    """Carry event logs, queues, archives and files into the lake, and back.

    Most need pip install 'pgsluice[spark]'; Java is found, or comes with it.
    """


@pipeline.group(cls=_Kinds, subcommand_metavar="KIND [OPTIONS] | NAME... --config FILE")
def run() -> None:
    """Run a pipeline until it is done, or until it is told to end; run again, it goes on where it was.

    A KIND is described by its options. NAMEs are sections of a TOML file, several of which run side by
    side; `all` runs all of them. A section has the kind, and its options with underscores:

    \b
      [orders-to-lake]
      kind = "events"
      log = "orders"
      lake = "lake/orders"
      checkpoint = "lake/orders.checkpoint"

    What fails is started again after a pause. SIGTERM and SIGINT end all; with --once the sections run one
    after the other, each until everything is done that is there now.

    \b
    Exit codes:
      0  told to end, and done; or with --once all is done
      2  the command line cannot be understood
      3  the file cannot be used, or a pipeline cannot go on; one line says why
    """


@click.command(name="NAME...")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The TOML file with the sections.",
)
@run_options
def _sections(names: tuple[str, ...], file: Path, **how: Any) -> None:
    """Run pipelines that are sections of a TOML file; `all` runs all of them.

    --dsn is for those whose section does not say where to connect.
    """
    found = config.load(file)
    carry(config.choose(found, names), spark=found.spark, **how)


pipeline.add_command(verify)


@run.command(short_help="Stream an event log into a Delta table.")
@click.option("--log", required=True, metavar="NAME", help="The event log.")
@lake_option
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIR",
    help="Spark's notes on how far it is. It belongs to the table: keep both, or neither.",
)
@click.option(
    "--max-rows",
    "max_rows_per_trigger",
    type=click.IntRange(min=1),
    default=200_000,
    show_default=True,
    help="About the most events in one commit of the lake.",
)
@click.option(
    "--trigger-s",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="How often to look for new events, seconds.",
)
@click.option(
    "--starting",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help='Where the first run begins: earliest, latest or {"tick": 12}.',
)
@click.option(
    "--consumer",
    metavar="NAME",
    help="The consumer that holds the log for this stream. Default: made from the table's folder.",
)
@run_options
def events(**options: Any) -> None:
    """Stream an event log into a Delta table, each committed event once, whatever dies in between."""
    carry_kind("events", **options)


@run.command(short_help="Copy an archive, or a queue, into a Delta table.")
@click.option("--queue", required=True, metavar="NAME", help="The work queue.")
@click.option(
    "--table",
    type=click.Choice(["archive", "queue"]),
    default="archive",
    show_default=True,
    help="Which of its two tables. Only an archive is verified.",
)
@lake_option
@click.option(
    "--export",
    metavar="NAME",
    help="The name of this copy. Default: the last part of the table's folder.",
)
@click.option(
    "--drop",
    is_flag=True,
    help="Drop from the archive what all copies have verified in the lake.",
)
@every_option
@run_options
def archive(**options: Any) -> None:
    """Copy the rows that the Delta table does not hold yet, in one commit, and verify them there.

    From its first run on, the archive keeps what is not verified in the table, whatever its retention: `pgsluice
    queue exports` shows that, and ends it. Killed at any moment and run again, it goes on where it was.
    """
    carry_kind("archive", **options)
