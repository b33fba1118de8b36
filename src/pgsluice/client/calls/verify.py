"""Columns of a table and its rows as canonical text, for the comparison of the lake with the server; as calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgsluice.client.calls.call import Call, column, nothing, record, scalar


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A stored column of a table.

    Attributes:
        name: Name of the column.
        type_name: Type in the form of `format_type`, without a modifier; for a domain, its base type.
        key_position: Position in the primary key, from 1; None if not part of it.
        is_core: True if the type is built into PostgreSQL, or composed of such types. Capture writes values of other
            types as text.
    """

    name: str
    type_name: str
    key_position: int | None = None
    is_core: bool = True


def steady_session() -> Call[None]:
    """Fix the settings that affect text output of this session."""
    return Call(
        "select set_config(s.name, s.value, false) from (values"
        " ('search_path', 'pg_catalog, pg_temp'), ('client_encoding', 'UTF8'), ('TimeZone', 'UTC'),"
        " ('DateStyle', 'ISO'), ('IntervalStyle', 'iso_8601'), ('bytea_output', 'hex'),"
        " ('extra_float_digits', '1'), ('lc_monetary', 'C')) as s (name, value)",
        (),
        nothing,
    )


def find_table(name: str) -> Call[list[str]]:
    """Resolve a table name by the session's search path; return its name qualified and quoted, if it exists."""
    return Call(
        "select format('%%I.%%I', n.nspname, c.relname)"
        " from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n on n.oid = c.relnamespace"
        " where c.oid = to_regclass(%s::text)",
        (name,),
        column,
    )


def queue_relation(queue_name: str, relation: str) -> Call[str]:
    """Return the table of a queue (relation `queue`) or of its archive (`archive`), qualified and quoted."""
    return Call(
        "select format('pgmq.%%I', pgmq.format_table_name(%s::text, %s::text))::regclass::text",
        (queue_name, "a" if relation == "archive" else "q"),
        scalar,
        queue_name,
    )


def canonical_columns(relation: str) -> Call[list[StoredColumn]]:
    """Return the stored columns of a table, in order."""
    return Call(
        "select c.column_name, c.type_name, c.key_position, c.is_core from sluice.canonical_columns(%s::regclass) as c",
        (relation,),
        record(StoredColumn),
    )


def canonical_copy(
    relation: str, columns: Sequence[str], forms: Sequence[str], only_where_null: str | None
) -> Call[str]:
    """Return the COPY statement that writes a table's rows as canonical text, in which equal values have equal text."""
    return Call(
        "select sluice.canonical_copy(%s::regclass, %s::text[], %s::text[], %s::text)",
        (relation, list(columns), list(forms), only_where_null),
        scalar,
    )


def current_snapshot() -> Call[str]:
    """Return the snapshot of this transaction."""
    return Call("select pg_current_snapshot()::text", (), scalar)


def log_relation(log_name: str) -> Call[str]:
    """Return the table of a log, qualified and quoted."""
    return Call(
        "select format('pgq.event_%%s', q.queue_id)::regclass::text from pgq.queue as q where q.queue_name = %s::text",
        (log_name,),
        scalar,
    )
