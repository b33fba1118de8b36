"""Pipelines in a TOML file: one section each, validated as a whole before any starts.

    [defaults]                      # for every pipeline that takes the key
    dsn = "postgresql://me@host/shop"

    [spark]                         # spark.master, spark.executor.memory, …
    master = "spark://head:7077"
    executor.memory = "4g"

    [orders_to_lake]                # any name except those above and the kinds
    kind = "events"
    log = "orders"
    lake = "lake/orders"            # relative to the folder of this file
    checkpoint = "lake/orders.checkpoint"

The keys of a section are the arguments of the kind's function, like the options of its command.
"""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from pgsluice.errors import ConfigurationError
from pgsluice.pipelines.options import CurrentStateOptions, StreamOptions

# Each is a module of this package with one function of the same name.
KINDS = ("analytics", "archive", "changes", "events", "ingest", "replay")
ALL = "all"
# Arguments of the functions that the caller passes, not the configuration.
_GIVEN = ("once", "spark", "stop", "on_progress")
_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "Path": (str,),
    "datetime": (datetime,),
}
_MAPPING = re.compile(r"Mapping\[str, (\w+)\]")
_SEQUENCE = re.compile(r"Sequence\[([^]]*)\]")
_MAY_BE_EMPTY = ("ev_type",)
# An Iceberg table, or a URL.
_NO_FOLDER = re.compile(r"iceberg:|[\w+.-]+://")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A configured pipeline.

    Attributes:
        name: Its name in logs and on the command line.
        kind: One of `KINDS`.
        options: Keyword arguments of the kind's function. `dsn` may hold a password: never print them.
    """

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def arguments(self) -> Mapping[str, inspect.Parameter]:
        """Return the parameters of its function, with the fields of a record in the place of the record."""
        return arguments_of(self.kind)

    def run(self, **given: Any) -> Any:
        """Call its function, with the arguments that the configuration does not have."""
        left = {**self.options, **given}
        for name, record in _records(self.kind).items():
            own = [one.name for one in fields(record) if one.name in left]
            left[name] = record(**{one: left.pop(one) for one in own})
        return function_of(self.kind)(**left)

    @property
    def repeats(self) -> bool:
        """True if it is a repeated job instead of a stream: such a function takes `stop`."""
        return "stop" in self.arguments()

    @property
    def needs_spark(self) -> bool:
        """True if it runs on Spark; otherwise its function takes no `spark`, and Java is not needed."""
        return "spark" in self.arguments()


@dataclass(frozen=True, slots=True)
class Configuration:
    """The contents of a file.

    Attributes:
        pipelines: By name, in the order of the file.
        spark: Spark settings by full name.
    """

    pipelines: Mapping[str, Pipeline]
    spark: Mapping[str, str]


def function_of(kind: str) -> Callable[..., Any]:
    """Return the function that runs a kind."""
    function: Callable[..., Any] = getattr(
        importlib.import_module(f"pgsluice.pipelines.{kind}"), kind
    )
    return function


def arguments_of(kind: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of the function of a kind, see `Pipeline.arguments`."""
    found: dict[str, inspect.Parameter] = {}
    records = _records(kind)
    for name, argument in inspect.signature(function_of(kind)).parameters.items():
        record = records.get(name)
        found |= {name: argument} if record is None else inspect.signature(record).parameters
    return found


def _records(kind: str) -> dict[str, type[StreamOptions | CurrentStateOptions]]:
    """Return the parameters of the function of a kind that are records."""
    arguments = inspect.signature(function_of(kind)).parameters
    records = {record.__name__: record for record in (StreamOptions, CurrentStateOptions)}
    return {
        name: records[one.annotation]
        for name, one in arguments.items()
        if one.annotation in records
    }


def load(path: str | Path) -> Configuration:
    """Read and validate a file.

    Raises:
        ConfigurationError: It cannot be read, or a value is invalid; the message names section and key.
    """
    file = Path(path)
    sections = _read(file)
    defaults = sections.pop("defaults", {})
    spark = {
        name: _spark_text(name, value, file) for name, value in _flat(sections.pop("spark", {}))
    }
    pipelines = {}
    used: set[str] = set()
    for name, section in sections.items():
        pipeline = _pipeline(name, section, defaults, file)
        used |= defaults.keys() & pipeline.options.keys()
        pipelines[name] = pipeline
    if not pipelines:
        raise ConfigurationError(
            f"{file} has no pipeline; add a section such as [orders_to_lake] with kind = 'events'"
        )
    if unused := sorted(defaults.keys() - used):
        raise ConfigurationError(
            f"no pipeline in {file} takes {', '.join(unused)}, set under [defaults]; remove it"
        )
    return Configuration(pipelines, spark)


def choose(configuration: Configuration, names: tuple[str, ...]) -> list[Pipeline]:
    """Return the pipelines of these names, in the order of the file; `all` selects all.

    Raises:
        ConfigurationError: A name is unknown.
    """
    if names == (ALL,):
        return list(configuration.pipelines.values())
    if unknown := [name for name in names if name not in configuration.pipelines]:
        raise ConfigurationError(
            f"pipeline {unknown[0]!r} does not exist in the file; it has "
            f"{', '.join(configuration.pipelines)}; `{ALL}` runs them all"
        )
    return [pipeline for name, pipeline in configuration.pipelines.items() if name in names]


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        with file.open("rb") as stream:
            sections = tomllib.load(stream)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read: {error.strerror}; check the path"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}; fix it") from None
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise ConfigurationError(
                f"{file} has the key {name!r} outside a section; move it into the section of a pipeline"
            )
        if name in KINDS or name == ALL:
            raise ConfigurationError(
                f"section name {name!r} in {file} is reserved; name the section after its data, "
                f"and set kind = {name!r} in it"
            )
    return sections


def _pipeline(
    name: str, section: Mapping[str, Any], defaults: Mapping[str, Any], file: Path
) -> Pipeline:
    where = f"[{name}] in {file}"
    kind = section.get("kind")
    if kind not in KINDS:
        given = "has no kind" if kind is None else f"has the kind {kind!r}"
        raise ConfigurationError(f"{where} {given}; use {', '.join(KINDS)}")
    taken = {key: argument for key, argument in arguments_of(kind).items() if key not in _GIVEN}
    own = {key: value for key, value in section.items() if key != "kind"}
    if unknown := sorted(own.keys() - taken.keys()):
        raise ConfigurationError(
            f"{where} has the key {unknown[0]!r}, which {kind} does not take; it takes {', '.join(taken)}"
        )
    options = {key: value for key, value in defaults.items() if key in taken} | own
    needed = [key for key, argument in taken.items() if argument.default is argument.empty]
    if missing := [key for key in needed if key not in options]:
        raise ConfigurationError(f"{where} has no {missing[0]}; {kind} needs {', '.join(needed)}")
    return Pipeline(
        name,
        kind,
        {
            key: _value(key, value, str(taken[key].annotation), where, file.parent)
            for key, value in options.items()
        },
    )


def _value(key: str, value: Any, annotation: str, where: str, folder: Path) -> Any:
    """Return the value converted for the function, whose annotation gives its type."""
    named, many = _MAPPING.search(annotation), _SEQUENCE.search(annotation)
    if named is not None and isinstance(value, dict):
        return {
            name: _value(f"{key}.{name}", one, named[1], where, folder)
            for name, one in value.items()
        }
    if many is not None and isinstance(value, list):
        return [_value(key, one, many[1], where, folder) for one in value]
    parts = [part.strip() for part in _SEQUENCE.sub("", annotation).split("|")]
    fits = any(
        isinstance(value, _TYPES.get(part, ())) and (part == "bool" or not isinstance(value, bool))
        for part in parts
    )
    if not fits:
        # Not quoted, as it may contain a password.
        raise ConfigurationError(
            f"{where} has {key} of type {type(value).__name__}; use {annotation}"
        )
    if isinstance(value, str) and not value.strip() and key not in _MAY_BE_EMPTY:
        raise ConfigurationError(f"{where} has an empty {key}; give it a value or remove it")
    if "Path" in parts and not _NO_FOLDER.match(str(value)):
        return str(folder.absolute() / Path(value).expanduser())
    return value


def _flat(section: Mapping[str, Any], prefix: str = "spark") -> list[tuple[str, Any]]:
    """Return the settings by dotted name: TOML reads `executor.memory` as nested tables."""
    found: list[tuple[str, Any]] = []
    for key, value in section.items():
        name = f"{prefix}.{key}"
        found += _flat(value, name) if isinstance(value, dict) else [(name, value)]
    return found


def _spark_text(name: str, value: Any, file: Path) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigurationError(f"[spark] in {file} has {name} = {value!r}; use a string or a number")
