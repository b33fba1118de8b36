"""What the commands of `pgsluice worker` share."""

from __future__ import annotations

import click


def names(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> list[str] | None:
    """Names, apart by commas; None when there are none."""
    if text is None:
        return None
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise click.BadParameter("name at least one")
    return found


app_argument = click.argument("app_name", metavar="MODULE:APP")
queues_option = click.option(
    "--queues",
    metavar="A,B",
    callback=names,
    help="Only the handlers whose messages come from these work queues or logs.  [default: all]",
)
handlers_option = click.option(
    "--handlers",
    metavar="A,B",
    callback=names,
    help="Only the handlers of these names.  [default: all]",
)
