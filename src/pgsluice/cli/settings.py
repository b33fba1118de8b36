"""NAME=VALUE arguments of the `set` commands, and the rows of the `show` commands."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from pgsluice.cli.main import did_you_mean
from pgsluice.cli.types import FOREVER, Duration

settings_argument = click.argument("settings", metavar="NAME=VALUE...", nargs=-1, required=True)


def parse_settings(settings: Sequence[str], options: type) -> dict[str, Any]:
    """Parse NAME=VALUE arguments to the options of a TypedDict; an empty value is None, the default.

    Raises:
        click.UsageError: An option is unknown, given twice, or its value has another type.
    """
    types_by_name = get_type_hints(options)
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise click.UsageError(f"{setting!r} is not a setting; write NAME=VALUE")
        if name not in types_by_name:
            hint = did_you_mean(name, types_by_name) or f" There are: {', '.join(types_by_name)}."
            raise click.UsageError(f"No such option {name!r}.{hint}")
        if name in given:
            raise click.UsageError(f"{name} is given twice")
        try:
            given[name] = _value(text, types_by_name[name])
        except click.BadParameter as error:
            raise click.UsageError(f"{name}: {error.message}") from None
    return given


def shown_settings(settings: Mapping[str, Any], *, as_json: bool) -> list[dict[str, Any]]:
    """Return rows of a name and a value; for JSON, one row with `_s` appended to the names of durations."""
    if as_json:
        return [
            {
                f"{name}_s" if isinstance(value, timedelta) else name: value
                for name, value in settings.items()
            }
        ]
    return [{"name": name, "value": value} for name, value in settings.items()]


def _value(text: str, of: Any) -> Any:
    if text in ("", FOREVER):
        return None
    for kind in _kinds(of):
        if get_origin(kind) is Literal:
            return click.Choice(get_args(kind)).convert(text, None, None)
        if kind is timedelta:
            return timedelta(seconds=Duration().convert(text, None, None))
        if get_origin(kind) is not None:  # a list of whole numbers
            whole = click.types.convert_type(int)
            return [whole.convert(part.strip(), None, None) for part in text.split(",")]
        return click.types.convert_type(kind).convert(text, None, None)
    raise TypeError(of)


def _kinds(of: Any) -> Iterator[Any]:
    """Yield the members of a union but None, or the type itself."""
    parts = get_args(of) if get_origin(of) in (Union, types.UnionType) else (of,)
    yield from (part for part in parts if part is not type(None))
