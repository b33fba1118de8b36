"""NAME=VALUE arguments of the `set` commands, and the output of the `show` commands."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from pgsluice.cli.main import did_you_mean
from pgsluice.cli.output import show, show_lists
from pgsluice.cli.types import Duration

# Of names in seconds; an option in seconds is a duration here: lease=5m is lease_s.
_SECONDS = "_s"
# Of each list about a record.
_ROWS_MAX = 20

settings_argument = click.argument("settings", metavar="NAME=VALUE...", nargs=-1, required=True)
optional_settings_argument = click.argument("settings", metavar="[NAME=VALUE]...", nargs=-1)


def parse_settings(settings: Sequence[str], options: type) -> dict[str, Any]:
    """Parse NAME=VALUE arguments to the options of a TypedDict; an empty value is None, the default.

    Raises:
        click.UsageError: An option is unknown, given twice, or its value has another type.
    """
    known = {name.removesuffix(_SECONDS): name for name in options.__annotations__}
    kinds = get_type_hints(options)
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise click.UsageError(f"{setting!r} is not a setting; write NAME=VALUE")
        if name not in known:
            hint = did_you_mean(name, known) or f" There are: {', '.join(known)}."
            raise click.UsageError(f"No such option {name!r}.{hint}")
        field = known[name]
        if field in given:
            raise click.UsageError(f"{name} is given twice")
        try:
            if not text:
                given[field] = None
            elif field == name:
                given[field] = _value(text, kinds[field])
            else:
                given[field] = Duration().convert(text, None, None)
        except click.BadParameter as error:
            raise click.UsageError(f"{name}: {error.message}") from None
    return given


def show_record(record: Any, as_json: bool, **lists: Callable[[], Iterable[Any]]) -> None:
    """Print a row for each field of a record, and lists about it; JSON appends `_s` to the names of durations."""
    settings = asdict(record)
    kinds = get_type_hints(type(record))
    named = {
        f"{name}{_SECONDS}" if _required(kinds[name]) is timedelta else name: value
        for name, value in settings.items()
    }
    if not as_json:
        rows = [{"name": name, "value": value} for name, value in settings.items()]
        show(rows, as_json, empty="")
    show_lists(lists, as_json, about=named, rows_max=_ROWS_MAX)


def _value(text: str, of: Any) -> Any:
    """Parse a value of a type, or of an optional type."""
    of = _required(of)
    if get_origin(of) is Literal:
        return click.Choice(get_args(of)).convert(text, None, None)
    if of is timedelta:
        return timedelta(seconds=Duration().convert(text, None, None))
    if get_origin(of) is not None:  # a sequence
        return [_value(part.strip(), get_args(of)[0]) for part in text.split(",")]
    return click.types.convert_type(of).convert(text, None, None)


def _required(of: Any) -> Any:
    """Return the type without None, if it is optional."""
    if get_origin(of) in (Union, types.UnionType):
        return next(part for part in get_args(of) if part is not type(None))
    return of
