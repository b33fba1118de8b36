"""JSON on standard input, and the options that filter messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

import click

from pgsluice.cli.options import Decorator, combined
from pgsluice.cli.types import Json, Time, decode_json
from pgsluice.errors import PayloadError


def json_value(text: str, what: str) -> Any:
    """Decode JSON, or raise PayloadError with the place of the text."""
    try:
        return decode_json(text)
    except ValueError as error:
        hint = "; write one JSON value per line (jq -c .)" if text.strip() in ("{", "[") else ""
        raise PayloadError(f"{what} is not JSON ({error}): {text.strip()[:80]!r}{hint}") from None


def lines(stream: TextIO | None) -> Iterator[str]:
    """Return the non-empty lines of a stream, which is None if standard input is closed."""
    if stream is None:
        raise PayloadError("standard input is closed; pass the data as arguments")
    try:
        yield from (line for line in stream if line.strip())
    except UnicodeDecodeError as error:
        raise PayloadError(f"standard input is not valid text: {error}") from None


matching_option = click.option(
    "--matching",
    metavar="TEXT",
    help="Only messages with this msg_id or key, or with this text in payload or headers; a JSON object or array is "
    "contained in them.",
)


# `read_filter` turns the values of these options into keyword arguments.
def filter_options(happened: str) -> Decorator:
    """Return the options of a filter; `happened` is what its times compare, in the past tense."""
    return combined(
        click.option(
            "--conditional", type=Json(), help="Only messages that contain this JSON value (@>)."
        ),
        click.option(
            "--conditional-headers",
            type=Json(is_object=True),
            help="Only messages whose headers contain this JSON object.",
        ),
        click.option(
            "--since", type=Time(), help=f"Only messages {happened} at this time or later."
        ),
        click.option("--until", type=Time(), help=f"Only messages {happened} before this time."),
    )


def read_filter(**given: Any) -> dict[str, Any]:
    """Return the filter options that were given, as arguments of the clients' methods."""
    since, until = given.get("since"), given.get("until")
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since must be before --until")
    return {name: value for name, value in given.items() if value not in (None, ())}
