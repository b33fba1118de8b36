"""`pgsluice embedded`: run an embedded PostgreSQL server."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import psycopg

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import confirm, json_option, yes_option
from pgsluice.cli.printing import echo, echo_json
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import databases
from pgsluice.embedded import EmbeddedServer, default_server
from pgsluice.errors import SluiceError
from pgsluice.sessions import SluiceConnection
from pgsluice.settings import EMBEDDED_VERSIONS, ROOT_HOME, Settings

_version_option = click.option(
    "--version",
    type=click.Choice([str(version) for version in EMBEDDED_VERSIONS]),
    help="Major version of PostgreSQL.  [default: PGSLUICE_EMBEDDED_VERSION, else 18]",
)
_data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Data folder; lock, log, socket and password are in DIR.run.  [default: postgresql-<version> in "
    "PGSLUICE_HOME, else in the platform's data folder]",
)


@click.group()
def embedded() -> None:
    """Run an embedded PostgreSQL server.

    All processes that use the same data folder share one server. It keeps its data and runs until stopped. Requires
    pip install 'pgsluice[embedded]'.
    """


@embedded.command(short_help="Start the server; idempotent.")
@_version_option
@_data_option
@click.option(
    "--tcp",
    is_flag=True,
    help="Also listen on 127.0.0.1, with a password and a port that is kept between starts. Print both with "
    "`embedded status --tcp`.",
)
def start(version: str | None, data: Path | None, tcp: bool) -> None:
    """Start the server, and create it first if it does not exist; do nothing if it is running.

    By default the server accepts connections only on a Unix socket that only its operating system user can access.
    With --tcp it also listens on 127.0.0.1. It never listens on another address.
    """
    server = _server(version, data, tcp=tcp)
    server.start()
    echo(f"PostgreSQL {server.version} runs on {server.data}")
    if data is None:
        echo(_home(), err=True)


@embedded.command(short_help="Stop the server.")
@_version_option
@_data_option
@click.option(
    "--mode",
    type=click.Choice(["fast", "immediate"]),
    default="fast",
    show_default=True,
    help="fast: terminate sessions and write a checkpoint; immediate: stop without one, and recover at the next start.",
)
@yes_option
def stop(version: str | None, data: Path | None, mode: str, yes: bool) -> None:
    """Stop the server; do nothing if it is not running.

    Asks for confirmation while sessions are connected. Only `embedded start` and `embedded psql` start the server
    again; other commands do not.
    """
    server = _server(version, data)
    if server.found() is None and not server.data.exists():
        raise click.UsageError(f"there is no server in {server.data}")
    connected = None if yes else _connected(server)
    if connected is not None:
        confirm(
            yes, f"{connected} to PostgreSQL {server.version} on {server.data}. Stop the server?"
        )
    server.stop("immediate" if mode == "immediate" else "fast", stay=True)
    echo(f"PostgreSQL {server.version} on {server.data} stopped")


@embedded.command(short_help="Show the state, paths and URL of the server.")
@_version_option
@_data_option
@click.option("--url", "url_only", is_flag=True, help="Print the connection URL only.")
@click.option("--tcp", is_flag=True, help="Show the TCP URL, including the password.")
@click.option(
    "--database", default="postgres", show_default=True, metavar="NAME", help="Database of the URL."
)
@json_option
def status(
    version: str | None, data: Path | None, url_only: bool, tcp: bool, database: str, as_json: bool
) -> None:
    """Show the state, paths and connection URL of the server, without starting it. Exits with 1 if it is not running.

    The URL of the Unix socket contains no password. With --tcp the output contains the password, which is stored in
    DIR.run/password, readable by its owner only.
    """
    server = _server(version, data, tcp=tcp)
    found = server.found()
    facts: dict[str, object] = {
        "running": found is not None and found.ready,
        "version": server.version,
        "data": str(server.data),
        "log": str(server.log),
        "url": server.url(database),
    }
    if data is None:
        facts["home"] = _home()
    if found is None and (since := server.stopped_since()) is not None:
        facts["stopped"] = since
    if found is not None:
        facts |= {
            "pid": found.pid,
            "state": found.status,
            "socket": str(found.socket_folder),
            "tcp": f"{found.address}:{found.port}" if found.address else None,
        }
    if url_only:
        echo(facts["url"])
        if not facts["running"]:
            echo("the server is not running; start it with: pgsluice embedded start", err=True)
    elif as_json:
        echo_json(facts)
    else:
        for name, value in facts.items():
            texts = {True: "yes", False: "no", None: "off"}
            shown = texts[value] if value is None or isinstance(value, bool) else value
            echo(f"{name:8} {shown}")
    if not facts["running"]:
        sys.exit(EXIT_DIFFERENCE)


@embedded.command(
    short_help="Run psql on the server.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@_version_option
@_data_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PSQL ARGUMENTS]...")
def psql(version: str | None, data: Path | None, arguments: tuple[str, ...]) -> None:
    """Start the server if it is not running, and run psql.

    The first argument that is not an option below, and all after it, are passed to psql.
    """
    server = _server(version, data)
    server.start()
    program = str(server.bin_dir / "psql")
    # psql replaces this process, so that it owns the terminal, signals and exit code.
    os.execve(program, [program, *arguments], server.client_environ())  # noqa: S606


def _connected(server: EmbeddedServer) -> str | None:
    """Describe the number of connected sessions; None if there are none."""
    if server.found() is None:
        return None
    try:
        with SluiceConnection.connect(
            server.url(), autocommit=True, connect_timeout=10
        ) as connection:
            sessions = Runner(connection).run(databases.count_sessions())
    except (psycopg.Error, SluiceError):
        return "an unknown number of sessions is connected"
    if sessions == 0:
        return None
    return "1 session is connected" if sessions == 1 else f"{sessions} sessions are connected"


def _home() -> str:
    """Return the folder and the rule that selected it."""
    settings = Settings.load()
    if os.environ.get("PGSLUICE_HOME"):
        return f"{settings.home} from PGSLUICE_HOME"
    if settings.home == ROOT_HOME:
        return (
            f"{settings.home}, as root's server runs as another user without access to root's home"
        )
    rule = "XDG_DATA_HOME" if os.environ.get("XDG_DATA_HOME") else "HOME"
    return f"{settings.home} from {rule}"


def _server(version: str | None, data: Path | None, *, tcp: bool = False) -> EmbeddedServer:
    settings = Settings.load(embedded_version=None if version is None else int(version))
    return default_server(settings, data=data, tcp=tcp)
