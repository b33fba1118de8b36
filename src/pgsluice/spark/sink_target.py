"""Validate the target of a DataFrame: a work queue or an event log, and its columns."""

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
# Permitted Spark types of each column, and its Arrow type for the transfer to the server.
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
class SinkTarget:
    """Work queue or event log, and the columns to write.

    Attributes:
        access: Address of the database.
        kind: `queue` or `log`.
        name: Its name; None if each row names its own in the column `queue` or `log`.
        schema: Columns in their Arrow types for the transfer; JSON is text.
    """

    access: Access
    kind: Literal["queue", "log"]
    name: str | None
    schema: pa.Schema

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType) -> SinkTarget:
        """Derive the target from options and columns.

        Raises:
            ConfigurationError: They do not determine a target, or a column is missing, unknown or of a wrong type.
        """
        kind = _kind(options, schema.names)
        name = options.get(kind) or None
        known = _COLUMNS[kind]
        unknown = [column for column in schema.names if column not in known]
        if unknown:
            raise ConfigurationError(
                f"a {_named(kind)} does not support the columns {', '.join(unknown)}; choose from {', '.join(known)}"
            )
        if _NEEDED[kind] not in schema.names:
            raise ConfigurationError(
                f"rows for a {_named(kind)} need the column {_NEEDED[kind]}; add it to the select"
            )
        if name is None and kind not in schema.names:
            raise ConfigurationError(
                f"the name of the {_named(kind)} is missing; set the option {kind}, or add a column {kind}"
            )
        if {"vt", "delay"} <= set(schema.names):
            raise ConfigurationError(
                "the columns vt and delay are mutually exclusive; keep only one"
            )
        fields = []
        for field in schema:
            if name is not None and field.name == kind:
                continue  # the option overrides the column
            allowed, arrow_type = known[field.name]
            spark_type = field.dataType.simpleString().partition("(")[0]
            if spark_type not in allowed:
                raise ConfigurationError(
                    f"the column {field.name} is {field.dataType.simpleString()}, not {allowed[0]}; "
                    + ("use to_json()" if field.name in JSON_COLUMNS else "cast it")
                )
            fields.append(pa.field(field.name, arrow_type))
        return cls(Access.from_options(options), kind, name, pa.schema(fields))

    def __str__(self) -> str:
        return f"{self.kind}:{self.name or '*'}"


def _kind(options: Mapping[str, str], columns: list[str]) -> Literal["queue", "log"]:
    if options.get("queue") and options.get("log"):
        raise ConfigurationError(
            "the options queue and log are mutually exclusive; write to each separately"
        )
    if options.get("queue"):
        return "queue"
    if options.get("log"):
        return "log"
    return "log" if "log" in columns or "ev_data" in columns else "queue"


def _named(kind: str) -> str:
    return {"queue": "work queue", "log": "event log"}[kind]
