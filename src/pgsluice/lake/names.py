"""Names of captured tables and their columns in PostgreSQL, and of their tables in the lake.

A table is known by its schema and its name within it, which may both contain dots. Its text is PostgreSQL's notation:
`public.account`, `public."Odd.Table"`.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from pgsluice.errors import ConfigurationError

# Words that `quote_ident` quotes, of PostgreSQL 15 to 18: all but the unreserved ones of pg_get_keywords().
_KEYWORDS = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both
    case cast char character check coalesce collate collation column concurrently constraint create cross
    current_catalog current_date current_role current_schema current_time current_timestamp current_user dec
    decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign
    freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect
    interval into is isnull join json json_array json_arrayagg json_exists json_object json_objectagg json_query
    json_scalar json_serialize json_table json_value lateral leading least left like limit localtime
    localtimestamp merge_action national natural nchar none normalize not notnull null nullif numeric offset on
    only or order out outer overlaps overlay placing position precision primary real references returning right
    row select session_user setof similar smallint some substring symmetric system_user table tablesample then
    time timestamp to trailing treat trim true union unique user using values varchar variadic verbose when
    where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi
    xmlroot xmlserialize xmltable
    """.split()  # noqa: SIM905 - one word a line would be longer than all else here
)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".][^.]*)', re.DOTALL)
_SEPARATOR = "__"
# A file name has at most 255 bytes: the prefix of a rebuild, and the suffixes of a state and a temporary file take 55.
_NAME_CHARACTERS_MAX = 200
_READABLE_CHARACTERS = 100


@dataclass(frozen=True, order=True, slots=True)
class TableName:
    """Name of a table in PostgreSQL; its text is that of `format('%I.%I', schema, table)`.

    Attributes:
        schema: The schema.
        table: The name within the schema.
    """

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    @classmethod
    def of(cls, text: str) -> TableName | None:
        """Return the name with this text; None if it has another number of parts than two."""
        parts = _split(text)
        return cls(*parts) if len(parts) == len(("schema", "table")) else None

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parse a table name: parts in double quotes are unquoted, others are taken as they are.

        Raises:
            ConfigurationError: It has another number of parts than two.
        """
        found = cls.of(text)
        if found is None:
            raise ConfigurationError(
                f"{text!r} is not the name of a table; write schema.table, with double quotes around a part that "
                'contains a dot: public."odd.table"'
            )
        return found


@dataclass(frozen=True, order=True, slots=True)
class ColumnName:
    """Name of a column in PostgreSQL; its text is `schema.table.column`, quoted where PostgreSQL quotes it.

    Attributes:
        table: Its table.
        column: The name within the table.
    """

    table: TableName
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{quoted(self.column)}"

    @classmethod
    def parse(cls, text: str) -> ColumnName:
        """Parse a column name, as `TableName.parse`.

        Raises:
            ConfigurationError: It has another number of parts than three.
        """
        parts = _split(text)
        if len(parts) != len(("schema", "table", "column")):
            raise ConfigurationError(
                f"{text!r} is not the name of a column; write schema.table.column, with double quotes around a part "
                'that contains a dot: public.account."odd.column"'
            )
        schema, table, column = parts
        return cls(TableName(schema, table), column)


def quoted(name: str) -> str:
    """Return an identifier as PostgreSQL's `quote_ident` does."""
    if _PLAIN.fullmatch(name) and name not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _split(text: str) -> list[str]:
    """Return the parts of a qualified name without their quotes; none if it is not one."""
    parts: list[str] = []
    at = 0
    while found := _PART.match(text, at):
        inside, plain = found.groups()
        parts.append(plain if inside is None else inside.replace('""', '"'))
        at = found.end()
        if at == len(text):
            return parts
        if text[at] != ".":
            return []
        at += 1
    return []


def iceberg_name(name: TableName) -> str:
    """Return the name of a current-state table in a namespace, unique for each table: `schema__table`."""
    odd = re.compile(r"\W|^_|_$|_(?=_)", re.ASCII)
    return _limited(_SEPARATOR.join(_tilded(odd, part) for part in (name.schema, name.table)), name)


def folder_name(name: TableName) -> str:
    """Return the name of a current-state table's folder, unique for each table: `schema.table`."""
    odd = re.compile(r"[^\w-]", re.ASCII)
    return _limited(".".join(_tilded(odd, part) for part in (name.schema, name.table)), name)


def file_name(text: str) -> str:
    """Return a file name that is unique for each text."""
    return _limited(_tilded(re.compile(r"[^\w.-]", re.ASCII), text), text)


def _tilded(odd: re.Pattern[str], text: str) -> str:
    return odd.sub(lambda found: f"~{found[0].encode().hex()}", text)


def _limited(encoded: str, name: Any) -> str:
    """Return an encoded name, or if it is too long its begin and a hash, which no other encoded name contains."""
    if len(encoded) <= _NAME_CHARACTERS_MAX:
        return encoded
    parts = [name.schema, name.table] if isinstance(name, TableName) else [name]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    return f"{encoded[:_READABLE_CHARACTERS]}~~{digest}"
