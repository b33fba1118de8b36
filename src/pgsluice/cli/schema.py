"""`pgsluice schema`: install, adopt, upgrade, verify or uninstall the schema."""

from __future__ import annotations

import sys
from typing import Any

import click
from psycopg import Connection
from rich.text import Text

from pgsluice import schema as installer
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import accepted_yes_option, confirm, dsn_option, yes_option
from pgsluice.cli.printing import Terminal, echo, echo_lines
from pgsluice.cli.types import Duration
from pgsluice.connection import connect, resolve
from pgsluice.errors import NotInstalledError

_console = Terminal(highlight=False, soft_wrap=True)
_with_option = click.option(
    "--with",
    "extras",
    type=click.Choice(["legacy"]),
    multiple=True,
    help="legacy: also install the pgmq_… functions of PGMQ 0.20 in schema public; upgrades keep them.",
)


@click.group()
def schema() -> None:
    """Install, adopt, upgrade, verify or uninstall the schemas pgmq, pgq and sluice."""


@schema.command()
@dsn_option
@_with_option
@click.option(
    "--tables-only",
    is_flag=True,
    help="Install tables only, for clients that use TableQueue instead of the SQL functions.",
)
@click.option(
    "--print",
    "print_only",
    is_flag=True,
    help="Print one SQL script for an empty database instead: … --print | psql -1 -f -",
)
def install(dsn: str | None, extras: tuple[str, ...], tables_only: bool, print_only: bool) -> None:
    """Install the schemas into a database, or upgrade them to this release; idempotent.

    Needs CREATE on the database. With CREATEROLE or as a superuser it also creates the roles sluice_… and pgq_…, to be
    granted to the logins of applications. To add the functions after --tables-only, install again without it.
    """
    if tables_only and (extras or print_only):
        raise click.UsageError("--tables-only is mutually exclusive with --with and --print")
    if print_only:
        echo_lines(installer.print_sql(legacy="legacy" in extras))
        return
    with connect(resolve(dsn), autocommit=True) as connection:
        absent = installer.missing(connection)
        if tables_only:
            versions = installer.install_tables(connection)
        else:
            versions = installer.install(connection, legacy="legacy" in extras)
    _print_migrations(versions, absent)


@schema.command()
@dsn_option
@click.option("--plan", "plan_only", is_flag=True, help="Print the steps without running them.")
@click.option(
    "--lock-timeout",
    "lock_deadline_s",
    type=Duration(),
    default="1m",
    show_default=True,
    help="Maximum time to wait for table locks.",
)
@accepted_yes_option
def adopt(dsn: str | None, plan_only: bool, lock_deadline_s: float) -> None:
    """Convert a database with PGMQ (0.20, 1.5 to 1.13) or PgQ (3.2 to 3.5) to pgsluice in place, in one transaction.

    Keeps queues, logs, messages, events, positions, ids, grants, policies and triggers. With --plan, exits with 1 if
    the database cannot be adopted.
    """
    with connect(resolve(dsn), autocommit=True) as connection:
        if not plan_only:
            for step in installer.adopt(connection, lock_deadline_s=lock_deadline_s):
                _console.say(f"done: {step}")
            _console.say("the schema is adopted")
            return
        plan = installer.plan_adoption(connection)
    for step in plan.steps:
        _console.say(step)
    for objection in plan.objections:
        _console.say(f"obstacle: {objection}")
    if plan.objections:
        sys.exit(EXIT_DIFFERENCE)
    if not plan.steps:
        _console.say("nothing to do")


@schema.command()
@dsn_option
@click.option("--plan", "plan_only", is_flag=True, help="Print the steps without running them.")
@click.option(
    "--allow-breaking",
    is_flag=True,
    help="Also run migrations that break running clients.",
)
@accepted_yes_option
def upgrade(dsn: str | None, plan_only: bool, allow_breaking: bool) -> None:
    """Upgrade an installed schema to this release, in one transaction. After `install --tables-only`, only the tables.

    Refuses if a migration breaks running clients, unless --allow-breaking is given. --plan names such migrations.
    """
    with connect(resolve(dsn), autocommit=True) as connection:
        if not plan_only:
            absent = installer.missing(connection)
            _print_migrations(installer.upgrade(connection, allow_breaking=allow_breaking), absent)
            _print_kind(connection)
            return
        plan = installer.plan(connection)
        _print_kind(connection)
    for migration in plan.migrations:
        note = f" breaking: {migration.breaking}" if migration.breaking else ""
        _console.say(f"run migration {migration.version}", Text(note, "bold red"))
    for line in plan.changes:
        _console.say(line)
    if not plan.migrations and not plan.changes:
        _console.say("nothing to do")


@schema.command()
@dsn_option
def verify(dsn: str | None) -> None:
    """Compare the installed schema with this release. Exits with 1 if they differ."""
    with connect(resolve(dsn)) as connection:
        differences = installer.verify(connection)
        _print_kind(connection)
    for line in differences:
        _console.say(line)
    if differences:
        sys.exit(EXIT_DIFFERENCE)
    _console.say("the schema matches this release")


@schema.command()
@dsn_option
@click.option(
    "--drop-data", is_flag=True, help="Also drop queues, logs, schedules and dead letters."
)
@click.option(
    "--drop-dependents",
    is_flag=True,
    help="Also drop views, functions, triggers and foreign keys that depend on the schemas.",
)
@yes_option
def uninstall(dsn: str | None, drop_data: bool, drop_dependents: bool, yes: bool) -> None:
    """Drop the schemas. Keeps the roles sluice_… and pgq_…, as other databases may use them.

    Refuses if there are queues, logs, schedules or dead letters, or if your objects depend on the schemas, unless the
    options below allow it.
    """
    confirm(yes, "Drop the schemas pgmq, pgq and sluice?")
    with connect(resolve(dsn), autocommit=True) as connection:
        try:
            installer.uninstall(connection, drop_data=drop_data, drop_dependents=drop_dependents)
        except NotInstalledError as error:
            echo(str(error), err=True)
            sys.exit(EXIT_DIFFERENCE)
    _console.say("dropped the schemas pgmq, pgq and sluice")


def _print_kind(connection: Connection[Any]) -> None:
    """Say if only the tables are installed."""
    if installer.has_tables_only(installer.installed_versions(connection)):
        _console.say(installer.ONLY_TABLES)


def _print_migrations(versions: tuple[str, ...], absent: tuple[str, ...]) -> None:
    for line in absent:
        _console.say(f"created again, empty: {line.rpartition('; ')[0]}")
    for version in versions:
        _console.say(f"ran migration {version}")
    _console.say("the schema is up to date")
