"""`pgsluice status`: where commands connect, and what is there."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pgsluice import schema
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.client import EventLog, WorkQueue
from pgsluice.connection import connect, resolve


@click.command()
@dsn_option
@json_option
def status(dsn: str | None, as_json: bool) -> None:
    """Say which server was taken and why, its version, and what is installed. Starts nothing."""
    target = resolve(dsn, start_embedded=False)
    with connect(target, autocommit=True) as connection:
        versions = schema.installed_versions(connection)
        info = connection.info
        report: dict[str, str | list[str] | None] = {
            "source": target.source,
            "target": target.safe or f"host={info.host} port={info.port} dbname={info.dbname}",
            "server": f"PostgreSQL {info.server_version // 10_000}.{info.server_version % 10_000}",
            "database": info.dbname,
            "user": info.user,
            "migrations": list(versions),
            "queues": [q.queue_name for q in WorkQueue(connection).list_queues()]
            if versions
            else [],
            "logs": [log.queue_name for log in EventLog(connection).get_queue_info()]
            if versions
            else [],
            "problems": list(schema.problems(connection)),
        }
    if as_json:
        click.echo(json.dumps(report))
        return
    table = Table(show_header=False, box=None)
    for name, value in report.items():
        separator = "\n" if name == "problems" else ", "
        text = separator.join(value) if isinstance(value, list) else str(value)
        table.add_row(name, escape(text) or "none")
    Console(soft_wrap=True).print(table)
