"""What a comparison of the lake with the server asks: which columns a table has, and its rows as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgsluice.client.calls.call import Call, column, nothing, record, scalar


@dataclass(frozen=True, slots=True)
class Column:
    """A stored column of a table.

    Attributes:
        name: Its name.
        type_name: As `format_type` says it, without a modifier; for a domain the type below.
        key_position: Its place in the primary key, from 1; None outside.
        is_core: Whether the type is PostgreSQL's own, or made of such. Captures write values of others as text.
    """

    name: str
    type_name: str
    key_position: int | None = None
    is_core: bool = True


@dataclass(frozen=True, slots=True)
class LogSpan:
    """What a log keeps for certain: its events after one tick up to another.

    Attributes:
        relation: Its table, qualified and quoted.
        from_tick: The oldest tick that is kept.
        from_snapshot: What had committed then, as `xmin:xmax:xip`.
        to_tick: The newest tick, or a consumer's.
        to_snapshot: What had committed then.
    """

    relation: str
    from_tick: int
    from_snapshot: str
    to_tick: int
    to_snapshot: str


def steady_session() -> Call[None]:
    """Let what this session writes as text depend on nobody's settings, until it ends."""
    return Call(
        "select set_config(s.name, s.value, false) from (values"
        " ('search_path', 'pg_catalog, pg_temp'), ('client_encoding', 'UTF8'), ('TimeZone', 'UTC'),"
        " ('DateStyle', 'ISO'), ('IntervalStyle', 'iso_8601'), ('bytea_output', 'hex'),"
        " ('extra_float_digits', '1'), ('lc_monetary', 'C')) as s (name, value)",
        (),
        nothing,
    )


def find_table(name: str) -> Call[list[str]]:
    """Find a table as the session does, by a name that may have a schema: its name qualified and quoted, if any."""
    return Call(
        "select format('%%I.%%I', n.nspname, c.relname)"
        " from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n on n.oid = c.relnamespace"
        " where c.oid = to_regclass(%s::text)",
        (name,),
        column,
    )


def queue_relation(queue_name: str, relation: str) -> Call[str]:
    """Name the table of a queue (relation `queue`) or of its archive (`archive`), qualified and quoted."""
    return Call(
        "select format('pgmq.%%I', pgmq.format_table_name(%s::text, %s::text))::regclass::text",
        (queue_name, "a" if relation == "archive" else "q"),
        scalar,
        queue_name,
    )


def canonical_columns(relation: str) -> Call[list[Column]]:
    """List the stored columns of a table, in order."""
    return Call(
        "select c.column_name, c.type_name, c.key_position, c.is_core from sluice.canonical_columns(%s::regclass) as c",
        (relation,),
        record(Column),
    )


def canonical_copy(
    relation: str, columns: Sequence[str], forms: Sequence[str], only_where_null: str | None
) -> Call[str]:
    """Compose the COPY statement that writes a table's rows as text in which equal values are equal."""
    return Call(
        "select sluice.canonical_copy(%s::regclass, %s::text[], %s::text[], %s::text)",
        (relation, list(columns), list(forms), only_where_null),
        scalar,
    )


def log_span(queue_name: str, consumer_name: str | None) -> Call[list[LogSpan]]:
    """Say what a log keeps for certain, and keep it so until the transaction ends."""
    return Call(
        "select s.relation::text, s.from_tick, s.from_snapshot::text, s.to_tick, s.to_snapshot::text"
        " from sluice.log_span(%s::text, %s::text) as s",
        (queue_name, consumer_name),
        record(LogSpan),
    )
