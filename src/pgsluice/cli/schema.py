"""`pgsluice schema`: install, adopt, upgrade, verify, print, uninstall."""

from __future__ import annotations

import sys

import click
from rich.console import Console

from pgsluice import schema as installer
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option
from pgsluice.connection import connect, resolve

_console = Console(highlight=False, soft_wrap=True)
_with_option = click.option(
    "--with",
    "extras",
    type=click.Choice(["legacy"]),
    multiple=True,
    help="legacy: also the seventeen functions pgmq_… of PGMQ 0.20, in schema public. An upgrade remembers it.",
)


@click.group()
def schema() -> None:
    """Install, adopt, upgrade, verify, print or remove the schemas pgmq, pgq and sluice."""


@schema.command()
@dsn_option
@_with_option
@click.option(
    "--tables-only",
    is_flag=True,
    help="Only the tables that a TableQueue works on, and no function.",
)
def install(dsn: str | None, extras: tuple[str, ...], tables_only: bool) -> None:
    """Install into a database, or bring it to this release; twice does no harm.

    After --tables-only, an installation without it adds the rest.
    """
    if tables_only and extras:
        raise click.UsageError("--tables-only installs no function, so it takes no --with")
    with connect(resolve(dsn), autocommit=True) as connection:
        if tables_only:
            _say_what_ran(installer.install_tables(connection))
        else:
            _say_what_ran(installer.install(connection, legacy="legacy" in extras))


@schema.command()
@dsn_option
@click.option(
    "--plan", "plan_only", is_flag=True, help="Print what would be done, and change nothing."
)
@click.option(
    "--lock-deadline",
    "lock_deadline_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to try to lock the tables.",
)
def adopt(dsn: str | None, plan_only: bool, lock_deadline_s: float) -> None:
    """Turn a database with PGMQ 1.5 to 1.13 into ours in place, in one transaction.

    Queues, messages, ids, grants, policies and triggers stay. With --plan, exit 1 says that something
    stands against it.
    """
    with connect(resolve(dsn), autocommit=True) as connection:
        if not plan_only:
            for step in installer.adopt(connection, lock_deadline_s=lock_deadline_s):
                _console.print(f"done: {step}", markup=False)
            _console.print("the schema is ours")
            return
        plan = installer.plan_adoption(connection)
    for step in plan.steps:
        _console.print(step, markup=False)
    for objection in plan.objections:
        _console.print(f"against it: {objection}", markup=False)
    if plan.objections:
        sys.exit(EXIT_DIFFERENCE)
    if not plan.steps:
        _console.print("nothing to do")


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
    with connect(resolve(dsn), autocommit=True) as connection:
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
@_with_option
def print_(extras: tuple[str, ...]) -> None:
    """Write one SQL file for an empty database: pgsluice schema print | psql -1 -f -"""
    click.echo(installer.print_sql(legacy="legacy" in extras))


@schema.command()
@dsn_option
@click.option("--drop-data", is_flag=True, help="Also when queues, logs or dead letters hold data.")
@click.option(
    "--drop-dependents",
    is_flag=True,
    help="Also drop views, functions, triggers and foreign keys that depend on the schemas.",
)
@click.confirmation_option(prompt="Drop the schemas pgmq, pgq and sluice?")
def uninstall(dsn: str | None, drop_data: bool, drop_dependents: bool) -> None:
    """Drop the schemas; the roles sluice_… and pgq_… stay, as other databases may use them."""
    with connect(resolve(dsn), autocommit=True) as connection:
        installer.uninstall(connection, drop_data=drop_data, drop_dependents=drop_dependents)
    _console.print("dropped the schemas pgmq, pgq and sluice")


def _say_what_ran(versions: tuple[str, ...]) -> None:
    for version in versions:
        _console.print(f"ran migration {version}")
    _console.print("the schema is up to date")
