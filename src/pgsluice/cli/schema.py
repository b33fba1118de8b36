"""`pgsluice schema`: install, upgrade, verify, print, uninstall."""

from __future__ import annotations

import sys

import click
from rich.console import Console

from pgsluice import schema as installer
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option
from pgsluice.connection import connect, resolve

_console = Console(highlight=False, soft_wrap=True)


@click.group()
def schema() -> None:
    """Install, upgrade, verify, print or remove the schemas pgmq, pgq and sluice."""


@schema.command()
@dsn_option
@click.option(
    "--tables-only",
    is_flag=True,
    help="Only the tables that a TableQueue works on, and no function.",
)
def install(dsn: str | None, tables_only: bool) -> None:
    """Install into a database, or bring it to this release; twice does no harm.

    After --tables-only, an installation without it adds the rest.
    """
    with connect(resolve(dsn)) as connection:
        run = installer.install_tables if tables_only else installer.install
        _say_what_ran(run(connection))


@schema.command()
@dsn_option
@click.option(
    "--plan", "plan_only", is_flag=True, help="Print what would change, and change nothing."
)
@click.option(
    "--allow-breaking",
    is_flag=True,
    help="Also run migrations that running clients do not survive.",
)
def upgrade(dsn: str | None, plan_only: bool, allow_breaking: bool) -> None:
    """Bring an installed database to this release."""
    with connect(resolve(dsn)) as connection:
        if not plan_only:
            _say_what_ran(installer.upgrade(connection, allow_breaking=allow_breaking))
            return
        plan = installer.plan(connection)
    for migration in plan.migrations:
        note = f" [bold red]breaking: {migration.breaking}[/]" if migration.breaking else ""
        _console.print(f"run migration {migration.version}{note}")
    for line in plan.changes:
        _console.print(line, markup=False)
    if not plan.migrations and not plan.changes:
        _console.print("nothing to do")


@schema.command()
@dsn_option
def verify(dsn: str | None) -> None:
    """Compare what is installed with this release; exit 1 when it differs."""
    with connect(resolve(dsn)) as connection:
        differences = installer.verify(connection)
    for line in differences:
        _console.print(line, markup=False)
    if differences:
        sys.exit(EXIT_DIFFERENCE)
    _console.print("the schema is as this release installs it")


@schema.command("print")
def print_() -> None:
    """Write one SQL file for an empty database: pgsluice schema print | psql -1 -f -"""
    click.echo(installer.print_sql())


@schema.command()
@dsn_option
@click.option("--drop-data", is_flag=True, help="Also when queues, logs or dead letters hold data.")
@click.confirmation_option(prompt="Drop the schemas pgmq, pgq and sluice?")
def uninstall(dsn: str | None, drop_data: bool) -> None:
    """Drop the three schemas; the roles sluice_… stay, as other databases may use them."""
    with connect(resolve(dsn)) as connection:
        installer.uninstall(connection, drop_data=drop_data)
    _console.print("dropped the schemas pgmq, pgq and sluice")


def _say_what_ran(versions: tuple[str, ...]) -> None:
    for version in versions:
        _console.print(f"ran migration {version}")
    _console.print("the schema is up to date")
