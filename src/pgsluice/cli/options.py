"""Options that several commands share, spelled once."""

from __future__ import annotations

import click

dsn_option = click.option(
    "--dsn",
    metavar="URL",
    help="Where to connect: postgresql://user@host/database. Default: PGSLUICE_DSN, DATABASE_URL, "
    "libpq's PG* variables, then the embedded server.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
