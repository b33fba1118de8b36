"""`pgsluice embedded`: run a real PostgreSQL that needs no installation."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click
import psycopg

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import json_option
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import databases
from pgsluice.embedded import EmbeddedServer, default_server
from pgsluice.errors import EmbeddedServerError, SluiceError
from pgsluice.settings import EMBEDDED_VERSIONS, ROOT_HOME, Settings

_version_option = click.option(
    "--version",
    type=click.Choice([str(version) for version in EMBEDDED_VERSIONS]),
    help="PostgreSQL's major version. Default: PGSLUICE_EMBEDDED_VERSION, else 18.",
)
_data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The data folder. Default: postgresql-<version> in PGSLUICE_HOME, else in the platform's "
    "folder for data. Lock, log, socket and password are kept beside it, in DIR.run.",
)


@click.group()
def embedded() -> None:
    """Run a real PostgreSQL that needs no installation.

    The server belongs to its data folder: it is shared by all processes that name the folder, keeps
    its data, and runs until it is stopped. Needs pip install 'pgsluice[embedded]'.
    """


@embedded.command(short_help="Start the server; no harm when it runs.")
@_version_option
@_data_option
@click.option(
    "--tcp",
    is_flag=True,
    help="Listen on 127.0.0.1 too, for programs that know no Unix sockets, with a password, on a "
    "port that is kept between starts. `embedded url --tcp` prints both.",
)
def start(version: str | None, data: Path | None, tcp: bool) -> None:
    """Start the server, making it first where there is none; no harm when it runs.

    It listens on a Unix socket that only its user can reach, and never on another address than
    127.0.0.1.
    """
    server = _server(version, data, tcp=tcp)
    server.start()
    click.echo(f"PostgreSQL {server.version} runs on {server.data}")
    if data is None:
        click.echo(_place(), err=True)


@embedded.command(short_help="Stop the server.")
@_version_option
@_data_option
@click.option(
    "--mode",
    type=click.Choice(["fast", "immediate"]),
    default="fast",
    show_default=True,
    help="fast ends sessions and writes everything; immediate just ends: the next start recovers.",
)
@click.option("--yes", is_flag=True, help="Stop it also while sessions are connected.")
def stop(version: str | None, data: Path | None, mode: str, yes: bool) -> None:
    """Stop the server until `pgsluice embedded start`; no harm when it does not run.

    Asks first while sessions are connected; without a terminal it refuses then, unless --yes is given. No command
    starts again what was stopped in this way, except for `embedded start` and `embedded psql`.
    """
    server = _server(version, data)
    connected = None if yes else _connected(server)
    if connected is not None:
        if not sys.stdin.isatty():
            raise EmbeddedServerError(
                f"{connected} to PostgreSQL {server.version} on {server.data}; end them, or stop it all the same "
                "with --yes"
            )
        click.confirm(f"{connected} to {server.data}. Stop the server?", abort=True)
    server.stop("immediate" if mode == "immediate" else "fast", stay=True)
    click.echo(f"PostgreSQL {server.version} on {server.data} is stopped")


@embedded.command(short_help="Say whether it runs, and where.")
@_version_option
@_data_option
@json_option
def status(version: str | None, data: Path | None, as_json: bool) -> None:
    """Say whether the server runs, and where; exits with 1 when it does not. Prints no secret."""
    server = _server(version, data)
    found = server.found()
    facts: dict[str, object] = {
        "running": found is not None and found.ready,
        "version": server.version,
        "data": str(server.data),
        "log": str(server.log),
    }
    if data is None:
        facts["place"] = _place()
    if found is None and (since := server.stopped_since()) is not None:
        facts["stopped"] = since
    if found is not None:
        facts |= {
            "pid": found.pid,
            "state": found.status,
            "socket": str(found.socket_folder),
            "tcp": f"{found.address}:{found.port}" if found.address else None,
        }
    if as_json:
        click.echo(json.dumps(facts))
    else:
        for name, value in facts.items():
            words = {True: "yes", False: "no", None: "off"}
            shown = words[value] if value is None or isinstance(value, bool) else value
            click.echo(f"{name:8} {shown}")
    if not facts["running"]:
        sys.exit(EXIT_DIFFERENCE)


@embedded.command(short_help="Print its address.")
@_version_option
@_data_option
@click.option(
    "--tcp", is_flag=True, help="The TCP address; the only output that holds the password."
)
@click.option("--database", default="postgres", show_default=True, metavar="NAME")
def url(version: str | None, data: Path | None, tcp: bool, database: str) -> None:
    """Print the server's address as a URL for libpq; starts nothing.

    The address of the Unix socket holds no secret. With --tcp the output holds the password, which
    is otherwise kept in DIR.run/password, readable by its owner only: mind where the output goes.
    """
    server = _server(version, data, tcp=tcp)
    click.echo(server.url(database))
    if not server.running():
        click.echo("not running; start it with pgsluice embedded start", err=True)


@embedded.command(
    short_help="Open psql on it.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@_version_option
@_data_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PSQL ARGUMENTS]...")
def psql(version: str | None, data: Path | None, arguments: tuple[str, ...]) -> None:
    """Start the server if it does not run, and open psql on it.

    Everything from the first argument that is not named below goes to psql unchanged.
    """
    server = _server(version, data)
    server.start()
    program = str(server.bin_dir / "psql")
    # Instead of this process: the terminal, its signals and the exit code are psql's.
    os.execve(program, [program, *arguments], server.client_environ())  # noqa: S606


def _connected(server: EmbeddedServer) -> str | None:
    """Say how many sessions are connected to a server; None when there are none."""
    if server.found() is None:
        return None
    try:
        with psycopg.connect(server.url(), autocommit=True, connect_timeout=10) as connection:
            sessions = Runner(connection).run(databases.count_sessions())
    except (psycopg.Error, SluiceError):
        return "an unknown number of sessions is connected"
    if sessions == 0:
        return None
    return "1 session is connected" if sessions == 1 else f"{sessions} sessions are connected"


def _place() -> str:
    """Say which rule chose the folder."""
    settings = Settings.load()
    if os.environ.get("PGSLUICE_HOME"):
        return f"{settings.home} from PGSLUICE_HOME"
    if settings.home == ROOT_HOME:
        return f"{settings.home}, as the server of root runs as another user, who cannot enter root's own folder"
    rule = "XDG_DATA_HOME" if os.environ.get("XDG_DATA_HOME") else "HOME"
    return f"{settings.home} from {rule}"


def _server(version: str | None, data: Path | None, *, tcp: bool = False) -> EmbeddedServer:
    settings = Settings.load(embedded_version=None if version is None else int(version))
    return default_server(settings, data=data, tcp=tcp)
