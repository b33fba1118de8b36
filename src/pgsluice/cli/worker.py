"""`pgsluice worker`: run the handlers of an app, or check them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, dsn_or_shards_option, json_option
from pgsluice.cli.output import show
from pgsluice.cli.printing import echo_json
from pgsluice.cli.types import Duration
from pgsluice.shards import Shards
from pgsluice.worker.engine.claim import start_checks
from pgsluice.worker.handlers.choosing import choose, describe
from pgsluice.worker.process.loading import load_app
from pgsluice.worker.process.service import RunOptions, Service, run_service, target_of

_COUNT = click.IntRange(min=1)


def _names(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> list[str] | None:
    """Split names at commas; None if the option is not given."""
    if text is None:
        return None
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise click.BadParameter("give at least one name")
    return found


def _app(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    """Refuse a path of a file."""
    module, _, attribute = name.partition(":")
    if module.endswith(".py") or "/" in module:
        right = module.removeprefix("./").removesuffix(".py").replace("/", ".")
        raise click.BadParameter(
            f'{name!r} is not MODULE:APP; pass the module, without ".py": {right}:{attribute or "app"}'
        )
    return name


_app_argument = click.argument("app_name", metavar="MODULE:APP", callback=_app)
_queues_option = click.option(
    "--queues",
    metavar="A,B",
    callback=_names,
    help="Only the handlers of these work queues and logs.  [default: all]",
)
_handlers_option = click.option(
    "--handlers",
    metavar="A,B",
    callback=_names,
    help="Only the handlers with these names.  [default: all]",
)


@click.group(short_help="Run the handlers of an app.")
def worker() -> None:
    """Run the handlers of an app, or check them.

    An app is a pgsluice.worker.App in a Python module. A handler is a function of it that is called for each message:

    \b
      # orders.py
      from pgsluice.worker import App
      app = App()
      @app.handler("orders")
      def handle(order: dict) -> None: ...

    \b
      pgsluice worker run orders:app
    """


@worker.command(short_help="Run an app's handlers until stopped.")
@_app_argument
@_queues_option
@_handlers_option
@click.option(
    "--processes",
    type=_COUNT,
    default=1,
    show_default=True,
    help="Number of worker processes. With more than one, or with --supervise, a supervisor process starts, restarts "
    "and stops them.",
)
@click.option(
    "--supervise",
    is_flag=True,
    help="Run a supervisor even for a single process. Without it, restarts are up to systemd, Docker or Kubernetes.",
)
@click.option(
    "--concurrency",
    type=_COUNT,
    help="Maximum number of messages in progress per process.  [default: the sum of the handlers' concurrency]",
)
@click.option(
    "--prefetch",
    type=click.IntRange(min=0),
    help="Maximum number of messages that a handler claims in advance. More keeps fast handlers busy; fewer leaves "
    "messages to other processes.  [default: adapts to the number that it starts in 100 ms]",
)
@click.option(
    "--lease",
    "lease_s",
    type=Duration(min_s=1, is_open=True),
    help="Lease of a claim without a heartbeat; messages of a crashed process are redelivered after it.  "
    "[default: the handler's lease_s, else 30s]",
)
@click.option(
    "--max-memory-mb",
    type=_COUNT,
    help='Address space limit of each process of handlers with execution="process", megabytes.  [default: no limit]',
)
@click.option(
    "--max-connections",
    type=_COUNT,
    help="Maximum number of connections per process for claims, handlers and the listener. Maintenance needs up to 6 "
    "more in the leader, and 1 in other processes.  [default: PGSLUICE_MAX_CONNECTIONS, else 30]",
)
@click.option(
    "--until-empty",
    is_flag=True,
    help="Exit when no messages are left, for batch jobs. Does not wait for messages that are delayed beyond "
    "--idle-timeout or claimed by other processes.",
)
@click.option(
    "--idle-timeout",
    "idle_s",
    type=Duration(),
    default="1s",
    show_default=True,
    help="With --until-empty: exit after this idle time.",
)
@click.option(
    "--shutdown-timeout",
    "grace_s",
    type=Duration(is_open=True),
    default="25s",
    show_default=True,
    help="Maximum duration of a graceful shutdown, before a hard stop. Keep it below the kill timeout of the "
    "orchestrator: Docker 10s, Kubernetes 30s, systemd 90s.",
)
@click.option(
    "--stall-timeout",
    "stall_s",
    type=Duration(),
    default="1m",
    show_default=True,
    help="Maximum time without a heartbeat, for example while a handler blocks the event loop; then /live returns 503 "
    "and a supervisor kills the process. 0 disables the check.",
)
@click.option(
    "--health-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write the state to every second, as JSON.  [default: none]",
)
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    help="Port of /live, /ready, / (the state as JSON) and /metrics (for Prometheus).  [default: none]",
)
@click.option(
    "--health-host",
    default="127.0.0.1",
    show_default=True,
    help="Address of --health-port; 0.0.0.0 for probes from outside a container.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of log lines on standard error. Passwords and payload values are masked.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Minimum log level.",
)
@click.option(
    "--create-queues",
    is_flag=True,
    help="Create the queues and logs of the handlers that do not exist.  [default: exit with 3 if one is missing]",
)
@click.option(
    "--no-maintenance",
    is_flag=True,
    help="Do not run `pgsluice maintain`'s tasks.  [default: run them in the first process, if no other process leads "
    "and the role has the privileges]",
)
@dsn_or_shards_option
def run(
    app_name: str, dsn: str | None, shards: Shards | None, no_maintenance: bool, **options: Any
) -> None:
    """Run an app's handlers until stopped.

    MODULE:APP names the App, as in `orders.worker:app`; modules are imported from the current folder or Python's path.
    Handlers are configured where they are declared; the options here configure the process.

    If the server is unavailable, even at startup, the worker waits and reconnects. With shards it does so for each,
    and works on the others: those of --shards without --shard, else the app's.

    \b
    Signals:
      SIGTERM, SIGINT  first: graceful shutdown: stop claiming, finish messages
                       in progress, release the others without counting an
                       attempt; second, or after --shutdown-timeout: hard stop

    \b
    Exit codes:
      0   stopped gracefully; or with --until-empty no messages are left
      1   hard stop with messages in progress, which are redelivered when their
          lease expires; or, with --until-empty, a message was dead-lettered or
          waits for a retry, or a shard is unavailable
      2   usage error
      3   cannot start, and retrying would not help: no such module, no schema,
          missing privileges
      75  handlers hang and cannot be cancelled; restart the worker (a
          supervisor does)
    """
    settings = RunOptions(
        app_name=app_name,
        dsn=dsn,
        shards=None if shards is None else shards.place,
        maintains=not no_maintenance,
        **options,
    )
    sys.exit(run_service(settings))


@worker.command(hidden=True)
def child() -> None:
    """Run one process of a supervisor, which configures it by standard input."""
    sys.exit(Service.of_supervisor().run())


@worker.command(short_help="Check that handlers can run.")
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
    """Check that `pgsluice worker run` can run, without changing anything.

    Imports the app, and checks the server, schemas, privileges, connection, queues and logs. Exits with 1 if a check
    fails, and with 3 if the app cannot be imported or the server cannot be reached.
    """
    from pgsluice.worker.engine.flow.options import WorkerOptions

    app = load_app(app_name)
    specs = choose(app, handlers, queues)
    findings = start_checks.run_checks(
        target_of(app, dsn),
        specs.values(),
        WorkerOptions().shares(specs.values()).total,
        with_groups=True,
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
        echo_json(records)
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
