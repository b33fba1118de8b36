"""Where rows of a DataFrame go, a work queue or an event log, and which of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError
from pgsluice.spark.access import Access

_TEXT = ("string", "varchar", "char")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TIME = ("timestamp",)
# What a column may be in Spark, and what it is on its way to the server.
_COLUMNS: dict[str, dict[str, tuple[tuple[str, ...], pa.DataType]]] = {
    "queue": {
        "queue": (_TEXT, pa.string()),
        "message": (_TEXT, pa.string()),
        "headers": (_TEXT, pa.string()),
        "delay": (_WHOLE, pa.int32()),
        "vt": (_TIME, pa.timestamp("us", "UTC")),
        "key": (_TEXT, pa.string()),
        "deduplication_key": (_TEXT, pa.string()),
    },
    "log": {
        "log": (_TEXT, pa.string()),
        **{
            name: (_TEXT, pa.string())
            for name in ("ev_type", "ev_data", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
        },
    },
}
_NEEDED = {"queue": "message", "log": "ev_data"}
JSON_COLUMNS = ("message", "headers")


@dataclass(frozen=True)
class Target:
    """A work queue or an event log, and the columns that it gets.

    Attributes:
        access: How to reach the database.
        kind: What it is.
        name: Its name, or None where each row names its own, in the column `queue` or `log`.
        schema: The columns, in their types on the way to the server. Text is there as text, JSON too.
    """

    access: Access
    kind: Literal["queue", "log"]
    name: str | None
    schema: pa.Schema

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType) -> Target:
        """What options and columns say.

        Raises:
            ConfigurationError: They do not say where, or a column has no place there.
        """
        kind = _kind(options, schema.names)
        name = options.get(kind) or None
        known = _COLUMNS[kind]
        unknown = [column for column in schema.names if column not in known]
        if unknown:
            raise ConfigurationError(
                f"a {_named(kind)} has no place for the columns {', '.join(unknown)}; select among "
                f"{', '.join(known)}"
            )
        if _NEEDED[kind] not in schema.names:
            raise ConfigurationError(
                f"rows for a {_named(kind)} need the column {_NEEDED[kind]}; select one with that name"
            )
        if name is None and kind not in schema.names:
            raise ConfigurationError(
                f"rows for a {_named(kind)} do not say which: give the option {kind}, or each row a column {kind}"
            )
        if {"vt", "delay"} <= set(schema.names):
            raise ConfigurationError(
                "vt and delay both say when a message becomes visible; keep one of them"
            )
        fields = []
        for field in schema:
            if name is not None and field.name == kind:
                continue  # the option goes before the column
            allowed, arrow_type = known[field.name]
            spark_type = field.dataType.simpleString().partition("(")[0]
            if spark_type not in allowed:
                raise ConfigurationError(
                    f"the column {field.name} is {field.dataType.simpleString()} and not {allowed[0]}; "
                    + ("use to_json()" if field.name in JSON_COLUMNS else "cast it")
                )
            fields.append(pa.field(field.name, arrow_type))
        return cls(Access.from_options(options), kind, name, pa.schema(fields))

    def __str__(self) -> str:
        return f"{self.kind}:{self.name or '*'}"


def _kind(options: Mapping[str, str], columns: list[str]) -> Literal["queue", "log"]:
    if options.get("queue") and options.get("log"):
        raise ConfigurationError(
            "the options queue and log are given; write to one after the other"
        )
    if options.get("queue"):
        return "queue"
    if options.get("log"):
        return "log"
    return "log" if "log" in columns or "ev_data" in columns else "queue"


def _named(kind: str) -> str:
    return {"queue": "work queue", "log": "event log"}[kind]
