"""`pgsluice worker`: run the handlers of an app, and look whether they can be run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.cli.output import show
from pgsluice.worker.app.choosing import choose, describe
from pgsluice.worker.engine import start_checks
from pgsluice.worker.process.loading import load_app
from pgsluice.worker.process.service import Service, Settings, run_service, target_of

_SECONDS = click.FloatRange(min=0, min_open=True)
_SECONDS_OR_NONE = click.FloatRange(min=0)
_COUNT = click.IntRange(min=1)


def _names(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> list[str] | None:
    """Names, apart by commas; None when there are none."""
    if text is None:
        return None
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise click.BadParameter("name at least one")
    return found


_app_argument = click.argument("app_name", metavar="MODULE:APP")
_queues_option = click.option(
    "--queues",
    metavar="A,B",
    callback=_names,
    help="Only the handlers whose messages come from these work queues or logs.  [default: all]",
)
_handlers_option = click.option(
    "--handlers",
    metavar="A,B",
    callback=_names,
    help="Only the handlers of these names.  [default: all]",
)


@click.group(short_help="Run the handlers of an app.")
def worker() -> None:
    """Run the handlers of an app, and look whether they can be run."""


@worker.command(short_help="Run handlers until told to end.")
@_app_argument
@_queues_option
@_handlers_option
@click.option(
    "--processes",
    type=_COUNT,
    default=1,
    show_default=True,
    help="How many processes handle messages. With more than one, or with --supervise, another one starts them, starts "
    "them anew when they die or hang, and tells them to end.",
)
@click.option(
    "--supervise",
    is_flag=True,
    help="Let another process watch also over a single one. Without it a process that dies is left to whatever has "
    "started it, such as systemd, Docker or Kubernetes.",
)
@click.option(
    "--concurrency",
    type=_COUNT,
    help="How many messages all handlers of a process may handle at once.  [default: as many as each handler says, "
    "together]",
)
@click.option(
    "--prefetch",
    type=click.IntRange(min=0),
    help="How many messages each handler may claim beyond those that run: more keeps fast handlers busy, of slow ones "
    "it keeps messages from other processes.  [default: as many as it begins in a tenth of a second]",
)
@click.option(
    "--lease-s",
    type=click.FloatRange(min=1, min_open=True),
    help="How long a claim lasts without a heartbeat, seconds: so long after a process died its messages come again.  "
    "[default: as each handler says, 30]",
)
@click.option(
    "--max-memory-mb",
    type=_COUNT,
    help='How much address space each process for handlers with execution="process" may use, megabytes.  '
    "[default: no limit]",
)
@click.option(
    "--max-connections",
    type=_COUNT,
    help="The most connections of each process for claims, handlers and its listener. Maintenance takes up to 6 more "
    "in the process that leads, and 1 in others.  [default: PGSLUICE_MAX_CONNECTIONS, else 30]",
)
@click.option(
    "--until-empty",
    is_flag=True,
    help="End when there is nothing more to handle: for batch jobs. What is delayed beyond --idle-s, or in the hands "
    "of others, is not waited for.",
)
@click.option(
    "--idle-s",
    type=_SECONDS_OR_NONE,
    default=1.0,
    show_default=True,
    help="With --until-empty: how long nothing must have come, seconds.",
)
@click.option(
    "--grace-s",
    type=_SECONDS,
    default=25.0,
    show_default=True,
    help="How long handlers may take to finish once the process was told to end, seconds; then it ends at once. Keep "
    "it below what the orchestrator waits before it kills: Docker 10, Kubernetes 30, systemd 90.",
)
@click.option(
    "--stall-s",
    type=_SECONDS_OR_NONE,
    default=60.0,
    show_default=True,
    help="How long a process may give no sign of life, as when a handler blocks the event loop, until /live answers "
    "503 and a supervisor kills it, seconds; 0: for ever.",
)
@click.option(
    "--health-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file that is written every second while it lives: the state as JSON.  [default: none]",
)
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    help="The port on which /live, /ready and / answer, with the state as JSON.  [default: none]",
)
@click.option(
    "--health-host",
    default="127.0.0.1",
    show_default=True,
    help="The address of --health-port; for probes from outside of a container 0.0.0.0.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How each line on standard error is written. Passwords and payload values are masked.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The lowest level that is written.",
)
@click.option(
    "--no-maintenance",
    is_flag=True,
    help="Do not do what `pgsluice maintain` does.  [default: do it in the first process, when no other one in the "
    "fleet leads, and the role may]",
)
@dsn_option
def run(app_name: str, dsn: str | None, no_maintenance: bool, **options: Any) -> None:
    """Run the handlers of an app until it is told to end.

    MODULE:APP names the App, as in `orders.worker:app`; modules are found from the current folder on. Everything about
    a handler is said where it is declared; the options here are about the process.

    A server that is away is waited for, at the start too; the process does not end because of it.

    \b
    Signals:
      SIGTERM, SIGINT  the first: claim nothing more, finish what has begun,
                       give the rest back without counting an attempt;
                       the second, or after --grace-s: end at once

    \b
    Exit codes:
      0   told to end, and done; or nothing more to do with --until-empty
      1   ended at once with handlers at work, whose messages come again when
          their lease is over; or, with --until-empty, a message went to the
          dead letters
      2   the command line cannot be understood
      3   it cannot start, and waiting would not help: no such module, no
          schema, missing rights; one line says what to do
      75  handlers hang that cannot be ended: start it again
          (a supervisor does)
    """
    settings = Settings(app_name=app_name, dsn=dsn, maintains=not no_maintenance, **options)
    sys.exit(run_service(settings))


@worker.command(hidden=True)
def child() -> None:
    """One process of a supervisor, which tells it everything by its standard input."""
    sys.exit(Service.of_supervisor().run())


@worker.command(short_help="Look whether handlers can be run.")
@_app_argument
@_queues_option
@_handlers_option
@json_option
@dsn_option
def check(
    app_name: str,
    queues: list[str] | None,
    handlers: list[str] | None,
    as_json: bool,
    dsn: str | None,
) -> None:
    """Say what `pgsluice worker run` would run, and whether it could.

    Imports the app, looks at the server, the schemas, the rights, the connection, the queues and logs; changes nothing.

    Exit code 1: something is wrong; what to do is said. 3: the app cannot be imported, or the server not be reached.
    """
    from pgsluice.worker.engine.worker import WorkerOptions

    app = load_app(app_name)
    specs = choose(app, handlers, queues)
    findings = start_checks.look(
        target_of(app, dsn), specs.values(), WorkerOptions().shares(specs.values()).total
    )
    records = [
        {"what": f"handler {name}", "found": describe(spec), "is_wrong": False}
        for name, spec in specs.items()
    ]
    records += [
        {"what": finding.name, "found": finding.detail, "is_wrong": finding.error is not None}
        for finding in findings
    ]
    if as_json:
        click.echo(json.dumps(records, ensure_ascii=False))
    else:
        show(
            [
                {
                    "": "✗" if record["is_wrong"] else "✓",
                    "what": record["what"],
                    "found": record["found"],
                }
                for record in records
            ],
            as_json=False,
            empty="",
        )
    if any(record["is_wrong"] for record in records):
        sys.exit(EXIT_DIFFERENCE)
