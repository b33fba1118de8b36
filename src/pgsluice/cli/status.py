"""`pgsluice status`: server, installed schema, queues, logs and problems."""

from __future__ import annotations

from typing import Any

import click
import psycopg
from rich.table import Table
from rich.text import Text

from pgsluice import schema
from pgsluice.cli.each_shard import errors_of, exit_if_down, of_each
from pgsluice.cli.failures import hint
from pgsluice.cli.options import dsn_or_shards_option, json_option
from pgsluice.cli.printing import Terminal, cell, echo, echo_json
from pgsluice.cli.queue_settings import paused_queues
from pgsluice.client import EventLog, Operations, TableQueue, WorkQueue
from pgsluice.connection import Target, connect, resolve
from pgsluice.errors import (
    ConfigurationError,
    NotInstalledError,
    PrivilegeError,
    SchemaError,
    SluiceError,
)
from pgsluice.shards import Shards
from pgsluice.worker.engine.connections.pooler import require_transactions


def _failures(connection: psycopg.Connection[Any]) -> list[str]:
    """Return a line for each maintenance step that failed at its last attempt."""
    try:
        failures = Operations(connection).list_failures()
    except PrivilegeError:
        return ["this role cannot read failures; grant it the role sluice_admin"]
    except NotInstalledError:
        return []  # installed by an older release
    lines = []
    for failure in failures:
        of_queue = "" if failure.queue_name is None else f" of {failure.queue_name!r}"
        of_group = "" if failure.group_name is None else f", group {failure.group_name!r}"
        lines.append(
            f"{failure.task}{of_queue}{of_group}: {failure.error}; "
            f"last attempt {failure.failed_at:%Y-%m-%d %H:%M:%S%z}, "
            f"failing since {failure.failed_since:%Y-%m-%d %H:%M:%S%z}"
        )
    return lines


def _pauses(connection: psycopg.Connection[Any]) -> list[str]:
    """Return a line for each paused queue."""
    return [
        f"{paused.queue_name} since {paused.paused_at:%Y-%m-%d %H:%M:%S%z} by {paused.paused_by}"
        + ("" if paused.pause_reason is None else f": {paused.pause_reason}")
        for paused in paused_queues(WorkQueue(connection)).values()
    ]


def _installation(connection: psycopg.Connection[Any]) -> dict[str, list[str]]:
    versions = schema.installed_versions(connection)
    problems = list(schema.problems(connection))
    if not versions:
        hint = "the schema is not installed; install it with: pgsluice schema install"
        return {"problems": [*problems, hint]}
    if schema.has_tables_only(versions):
        return {
            "migrations": list(versions),
            "queues": [info.queue_name for info in TableQueue(connection).list_queues()],
            "installed": [schema.ONLY_TABLES],
            "problems": problems,
        }
    try:
        schema.require(connection)
    except (NotInstalledError, SchemaError) as error:
        problems.append(str(error))
    return {
        "installed": ["tables and functions"],
        "migrations": list(versions),
        "queues": [info.queue_name for info in WorkQueue(connection).list_queues()],
        "paused": _pauses(connection),
        "logs": [info.log_name for info in EventLog(connection).get_queue_info()],
        "problems": problems,
        "failures": _failures(connection),
    }


def _newest(migrations: list[str]) -> list[str]:
    """Return the last migration of each schema; --json has all."""
    return list({version.partition("/")[0]: version for version in sorted(migrations)}.values())


@click.command()
@json_option
@dsn_or_shards_option
def status(dsn: str | None, as_json: bool, shards: Shards | None) -> None:
    """Show the server and the setting that selects it, the installed schema, queues, logs and failures.

    With --shards and without --shard, of each shard. Does not start a server.
    """
    if shards is None:
        report = _report(resolve(dsn, start_embedded=False))
        if as_json:
            echo_json(report)
        else:
            _print(report)
        return
    found = of_each(shards, _report)
    reports: list[dict[str, Any]] = [
        {"shard": name, **({"problems": [hint(one)]} if isinstance(one, SluiceError) else one)}
        for name, one in found
    ]
    if as_json:
        echo_json(reports)
    else:
        for number, report in enumerate(reports):
            if number:
                echo("")
            _print(report)
    exit_if_down(errors_of(found))


def _report(target: Target) -> dict[str, Any]:
    with connect(target, autocommit=True) as connection:
        info = connection.info
        report: dict[str, Any] = {
            "source": target.source,
            "target": target.safe or f"host={info.host} port={info.port} dbname={info.dbname}",
            "server": f"PostgreSQL {info.server_version // 10_000}.{info.server_version % 10_000}",
            "database": info.dbname,
            "user": info.user,
            "installed": [],
            "migrations": [],
            "queues": [],
            "paused": [],
            "logs": [],
            "problems": [],
            "failures": [],
        }
        try:
            report |= _installation(connection)
        except PrivilegeError as error:
            report["problems"] = [f"user {info.user!r} cannot read the schema: {error}"]
        try:
            require_transactions(connection)
        except ConfigurationError as error:
            report["problems"] = [*report["problems"], str(error)]
    return report


def _print(report: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    for name, value in report.items():
        separator = "\n" if name in ("paused", "problems", "failures") else ", "
        texts = value if isinstance(value, list) else [value]
        if name == "migrations":
            texts = _newest(texts)
        table.add_row(name, Text(separator).join(map(cell, texts)) if texts else "none")
    Terminal(soft_wrap=True).print(table)
