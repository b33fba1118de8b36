"""`pgsluice dashboard`: see and operate queues, logs, share groups, schedules and pipelines in a browser."""

from __future__ import annotations

import os
import secrets
from typing import Any

import click

from pgsluice.cli.options import dsn_or_shards_option
from pgsluice.cli.printing import echo
from pgsluice.cli.signals import stop_on_signals
from pgsluice.cli.types import Duration
from pgsluice.connection import resolve
from pgsluice.errors import ConfigurationError
from pgsluice.extras import require_packages
from pgsluice.shards import Shards

_PASSWORD = "PGSLUICE_DASHBOARD_PASSWORD"  # noqa: S105 - the name of a variable


@click.command(short_help="See and operate queues, logs and more in a browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8899,
    show_default=True,
    help="Port to listen at; 0 for any free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen at; any but a loopback address requires a password.",
)
@click.option(
    "--allow-actions",
    is_flag=True,
    help="Offer actions such as send, redrive, purge and pause. Without it the dashboard is read-only. Without a "
    "password, only browsers that opened the printed address may act.",
)
@click.option(
    "--password",
    envvar=_PASSWORD,
    show_envvar=True,
    help="Ask for this password; any user name is accepted, and recorded with actions. Other users of the machine can "
    "see options: set the variable.",
)
@click.option(
    "--hide-key",
    "hidden_keys",
    multiple=True,
    metavar="KEY",
    help="Hide the values of this key in payloads and headers, at any depth. May be repeated.",
)
@click.option("--title", help="Name of the environment, shown on each page.")
@click.option(
    "--path",
    "root_path",
    help="Path at which a reverse proxy serves the dashboard, such as /pgsluice.",
)
@click.option(
    "--refresh",
    "refresh_s",
    type=Duration(min_s=1),
    default="5s",
    show_default=True,
    help="Time between two refreshes of open pages.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=Duration(min_s=0.01),
    default="2s",
    show_default=True,
    help="Timeout of each statement.",
)
@dsn_or_shards_option
def dashboard(
    port: int,
    host: str,
    password: str | None,
    title: str | None,
    root_path: str | None,
    dsn: str | None,
    shards: Shards | None,
    **options: Any,
) -> None:
    """Serve a dashboard of queues, logs, share groups, schedules, pipelines and workers.

    Needs the packages of `pip install 'pgsluice[dashboard]'`. It sees what the role of the connection may see: figures
    with sluice_monitor, payloads too with sluice_reader; actions need sluice_admin. With --shards and without --shard,
    it serves all shards.
    """
    require_dashboard("the dashboard needs")
    from pgsluice.dashboard import app
    from pgsluice.dashboard.guard import basic, is_loopback
    from pgsluice.dashboard.serving import serving

    if os.environ.get(_PASSWORD) == "":
        raise ConfigurationError(f"{_PASSWORD} is set but empty; set a password, or remove it")
    if password is None and not is_loopback(host):
        raise ConfigurationError(
            f"a dashboard at {host} can be reached from other machines; set {_PASSWORD}, or listen at 127.0.0.1"
        )
    if root_path is not None and not root_path.startswith("/"):
        raise ConfigurationError(f"--path {root_path} does not begin with /; use /{root_path}")
    # Without a password, only who sees this terminal may act.
    key = secrets.token_urlsafe(24) if password is None and options["allow_actions"] else None
    served = app(
        None if shards is not None else resolve(dsn),
        authenticate=None if password is None else basic(password),
        key=key,
        title=title or "",
        shards=shards,
        **options,
    )
    with (
        stop_on_signals() as stop,
        serving(served, host, port, "--port", path=root_path or "", on_end=stop.set) as address,
    ):
        echo(f"serving {address}{f'?key={key}' if key else ''}", err=True)
        stop.wait()


def require_dashboard(what: str) -> None:
    """Raise MissingExtraError if a package of the dashboard is not installed; `what` begins the message."""
    require_packages(what, ["starlette", "jinja2", "uvicorn"], "dashboard")
