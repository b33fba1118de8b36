"""Work queues without functions: the functions of schema `pgmq` as statements on the queues' tables.

Tables, indexes and row locks are those of the functions; sql/pgmq/README.md explains the algorithm. Operations of
several statements are generators of calls.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString, cast

from psycopg import sql

from pgsluice.client.calls import pgmq
from pgsluice.client.calls.arguments import many_ids, one_id, payloads, point, point_or_now, whole
from pgsluice.client.calls.call import (
    Call,
    Steps,
    column,
    nothing,
    one,
    one_or_none,
    record,
    require_storable,
    row,
    scalar,
)
from pgsluice.client.calls.clients import TableQueue, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.calls.tables_sql import (
    ARCHIVE,
    ARCHIVE_BATCH,
    CREATE,
    DELETE,
    DELETE_BATCH,
    GRANTS,
    LIST_QUEUES,
    METRICS,
    POP,
    READ,
    READ_CONDITIONAL,
    READ_CONDITIONAL_OWN_TRANSACTION,
    READ_OWN_TRANSACTION,
    SEND,
    SEND_AT,
    SEND_BATCH,
    SEND_BATCH_AT,
    SEND_BATCH_LATER,
    SEND_LATER,
    SET_VT,
    SET_VT_AT,
    SET_VT_BATCH,
    SET_VT_BATCH_AT,
)
from pgsluice.client.records import Message, QueueInfo, QueueMetrics
from pgsluice.errors import NotInstalledError, QueueNameError, ServerError
from pgsluice.tracing.carrier import Sends

NAME_BYTES_MAX = 47
_NOT_IN_NAMES = re.compile(r"\$|;|--|'")


@method(TableQueue)
def create(queue_name: str) -> Steps[None]:
    """Create a queue and its archive; do nothing if it exists.

    The connected role owns the tables, and needs CREATE on schema `pgmq`, which sluice_admin has. Existing sluice_…
    roles are granted their privileges. Other sessions cannot create or drop queues until the transaction ends. If
    the functions are installed, they create the queue.

    Args:
        queue_name: As for `WorkQueue.create`.

    Raises:
        QueueNameError: As for `WorkQueue.create`.
        ServerError: As for `WorkQueue.create`.
    """
    table = _table(queue_name)
    if (yield from _has_functions()):
        # A queue for the functions has more than its tables.
        yield pgmq.create(queue_name)
        return
    yield _LOCK
    _check_name(queue_name)
    clashing = yield Call(
        "select m.queue_name from pgmq.meta as m "
        "where pg_catalog.lower('q_' || m.queue_name) = %s::text and m.queue_name <> %s::text limit 1",
        (f"q_{table}", queue_name),
        column,
    )
    for other in clashing:
        raise QueueNameError(
            f"queue {queue_name!r} would share its table with queue {other!r} (both names fold to the table "
            f"pgmq.q_{table}); use {other!r}, or a name that differs in more than upper and lower case",
            sqlstate="QU002",
        )
    for statement in CREATE:
        yield Call(_on_index(statement, table, queue_name), (), nothing)
    yield Call(
        "insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) "
        "values (%s::text, false, false) on conflict do nothing",
        (queue_name,),
        nothing,
    )
    # Roles belong to the cluster, and an installation need not create all of ours.
    roles = yield Call(
        "select r.rolname::text from pg_catalog.pg_roles as r where r.rolname = any (%s::text[])",
        (list(GRANTS),),
        column,
    )
    for role in sorted(roles):
        for grant in GRANTS[role]:
            yield Call(_on(grant, table), (), nothing)


@method(TableQueue)
def drop_queue(queue_name: str) -> Steps[bool]:
    """Drop a queue with its messages and its archive; True if it existed.

    If the functions are installed, they drop the queue.

    Raises:
        QueueNameError: The table belongs to a queue whose name differs in case; the error names it.
    """
    table = _table(queue_name)
    if (yield from _has_functions()):
        return cast("bool", (yield pgmq.drop_queue(queue_name)))
    yield _LOCK
    exists = yield Call(
        "select exists (select from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n "
        "on n.oid = c.relnamespace where n.nspname = 'pgmq' and c.relname = %s::text)",
        (f"q_{table}",),
        scalar,
    )
    if not exists:
        return False
    registered = yield Call(
        "select m.queue_name from pgmq.meta as m where pg_catalog.lower('q_' || m.queue_name) = %s::text "
        "order by m.queue_name = %s::text desc limit 1",
        (f"q_{table}", queue_name),
        column,
    )
    # Drop only by the exact name: 'Orders' must not drop 'orders'.
    if registered not in ([], [queue_name]):
        raise QueueNameError(
            f"queue {queue_name!r} is not dropped: its table belongs to queue {registered[0]!r}; "
            f"call drop_queue({registered[0]!r}) if that is the queue you mean",
            sqlstate="QU002",
        )
    yield Call(_on("drop table if exists {queue}", table), (), nothing)
    yield Call(_on("drop table if exists {archive}", table), (), nothing)
    yield Call("delete from pgmq.meta where queue_name = %s::text", (queue_name,), nothing)
    return True


@method(TableQueue)
def list_queues() -> Steps[list[QueueInfo]]:
    """Return every queue, by name."""
    yield from _has_functions()
    queues = yield Call(LIST_QUEUES, (), record(QueueInfo))
    return cast("list[QueueInfo]", queues)


@method(TableQueue)
def purge_queue(queue_name: str) -> Steps[int]:
    """Delete all messages of a queue, visible or not, and keep its archive; return the number of messages.

    Takes an ACCESS EXCLUSIVE lock on the table, which needs the TRUNCATE privilege: waits for open readers and
    blocks other sessions.
    """
    table = _table(queue_name)
    # Take TRUNCATE's lock before the count, so that the count includes all deleted messages.
    yield Call(_on("lock table {queue} in access exclusive mode", table), (), nothing, queue_name)
    purged = yield Call(_on("select pg_catalog.count(*) from {queue}", table), (), scalar)
    yield Call(_on("truncate table {queue}", table), (), nothing)
    return cast("int", purged)


@method(TableQueue)
def metrics(queue_name: str) -> Call[QueueMetrics]:
    """Return the metrics of one queue; counts all messages."""
    return _metrics(queue_name, _table(queue_name))


@method(TableQueue)
def metrics_all() -> Steps[list[QueueMetrics]]:
    """Return the metrics of every queue that has its table, by name."""
    yield from _has_functions()
    # Skip queues whose table was dropped by hand.
    queues = yield Call(
        "select m.queue_name::text, pg_catalog.substr(c.relname, 3) from pgmq.meta as m "
        "join pg_catalog.pg_class as c on c.relname = pg_catalog.lower('q_' || m.queue_name) "
        "join pg_catalog.pg_namespace as n on n.oid = c.relnamespace and n.nspname = 'pgmq' "
        "order by m.queue_name",
        (),
        list,
    )
    found = []
    for queue_name, table in queues:
        found.append((yield _metrics(queue_name, table)))
    return found


@method(TableQueue)
def send(
    queue_name: str, message: Any, *, headers: Any = None, delay: int | datetime | None = None
) -> Call[int]:
    """Send one message and return its msg_id; as `WorkQueue.send` without a key.

    Raises:
        PayloadError: As for `WorkQueue.send`. Nothing was sent.
        ArgumentError: As for `WorkQueue.send`. Nothing was sent.
    """
    table = _table(queue_name)
    values = (json_parameter(message, "message"), json_parameter(headers, "headers"))
    when = point_or_now(delay, "delay")
    if when == 0:
        sends = Sends("pgmq", queue_name, 1)
        return Call(_on(SEND, table), values, scalar, queue_name, sends=sends)
    later = SEND_AT if isinstance(when, datetime) else SEND_LATER
    sends = Sends("pgmq", queue_name, 2)
    return Call(_on(later, table), (when, *values), scalar, queue_name, sends=sends)


@method(TableQueue)
def send_batch(
    queue_name: str,
    messages: Sequence[Any],
    *,
    headers: Sequence[Any] | None = None,
    delay: int | datetime | None = None,
) -> Call[list[int]]:
    """Send messages in one statement and return their msg_ids; as `WorkQueue.send_batch` without keys.

    Raises:
        PayloadError: As for `WorkQueue.send`. Nothing was sent.
        ArgumentError: As for `WorkQueue.send`. Nothing was sent.
    """
    table = _table(queue_name)
    values = payloads(messages, headers)
    when = point_or_now(delay, "delay")
    if when == 0:
        sends = Sends("pgmq", queue_name, 1, len(values[0]))
        return Call(_on(SEND_BATCH, table), values, column, queue_name, sends=sends)
    later = SEND_BATCH_AT if isinstance(when, datetime) else SEND_BATCH_LATER
    sends = Sends("pgmq", queue_name, 2, len(values[0]))
    return Call(_on(later, table), (when, *values), column, queue_name, sends=sends)


@method(TableQueue)
def read(
    queue_name: str, vt: int = 30, qty: int = 1, *, conditional: dict[str, Any] | None = None
) -> Call[list[Message]]:
    """Read up to `qty` visible messages and hide them for `vt` seconds; as `WorkQueue.read`.

    Raises:
        ArgumentError: `vt` or `qty` is out of range. Nothing was read.
    """
    table = _table(queue_name)
    parameters = (whole(qty, "qty", 1), whole(vt, "vt", 0))
    if conditional is None or conditional == {}:
        text, own = READ, READ_OWN_TRANSACTION
        values: tuple[Any, ...] = parameters
    else:
        text, own = READ_CONDITIONAL, READ_CONDITIONAL_OWN_TRANSACTION
        values = (*parameters, json_parameter(conditional, "conditional"))
    return Call(_on(text, table), values, record(Message), queue_name, _on(own, table))


@method(TableQueue)
def pop(queue_name: str, qty: int = 1) -> Call[list[Message]]:
    """Read up to `qty` visible messages and delete them immediately; as `WorkQueue.pop`.

    Raises:
        ArgumentError: `qty` is out of range. Nothing was read.
    """
    parameters = (whole(qty, "qty", 1),)
    return Call(_on(POP, _table(queue_name)), parameters, record(Message), queue_name)


@method(TableQueue)
def delete(queue_name: str, msg_id: int) -> Call[bool]:
    """Delete one message, even if another reader holds it; False when it is not in the queue."""
    return Call(_on(DELETE, _table(queue_name)), (one_id(msg_id),), bool, queue_name)


@method(TableQueue)
def delete_batch(queue_name: str, msg_ids: Sequence[int]) -> Call[list[int]]:
    """Delete messages, even if other readers hold them; return the msg_ids found in the queue, lowest first."""
    text = _on(DELETE_BATCH, _table(queue_name))
    return Call(text, (many_ids(msg_ids),), column, queue_name)


@method(TableQueue)
def archive(queue_name: str, msg_id: int) -> Call[bool]:
    """Move one message into the archive, even if another reader holds it; False when it is not in the queue."""
    return Call(_on(ARCHIVE, _table(queue_name)), (one_id(msg_id),), bool, queue_name)


@method(TableQueue)
def archive_batch(queue_name: str, msg_ids: Sequence[int]) -> Call[list[int]]:
    """Move messages into the archive, even if other readers hold them; return the msg_ids found, lowest first."""
    text = _on(ARCHIVE_BATCH, _table(queue_name))
    return Call(text, (many_ids(msg_ids),), column, queue_name)


@method(TableQueue)
def set_vt(queue_name: str, msg_id: int, vt: int | datetime) -> Call[Message | None]:
    """Change the visibility timeout of one message, even if another reader holds it; as `WorkQueue.set_vt`.

    Raises:
        ArgumentError: `vt` is negative, not whole, or a time without a zone.
    """
    text = SET_VT_AT if isinstance(vt, datetime) else SET_VT
    return Call(
        _on(text, _table(queue_name)),
        (point(vt, "vt"), one_id(msg_id)),
        one_or_none(Message),
        queue_name,
    )


@method(TableQueue)
def set_vt_batch(
    queue_name: str, msg_ids: Sequence[int], vt: int | datetime
) -> Call[list[Message]]:
    """Change the visibility timeout of messages, even if other readers hold them; as `WorkQueue.set_vt_batch`.

    Raises:
        ArgumentError: As for `set_vt`.
    """
    text = SET_VT_BATCH_AT if isinstance(vt, datetime) else SET_VT_BATCH
    parameters = (point(vt, "vt"), many_ids(msg_ids))
    return Call(_on(text, _table(queue_name)), parameters, record(Message), queue_name)


def _metrics(queue_name: str, table: str) -> Call[QueueMetrics]:
    return Call(_on(METRICS, table), (queue_name,), one(QueueMetrics), queue_name)


def _has_functions() -> Steps[bool]:
    """True if the functions are installed, not only the tables.

    Raises:
        NotInstalledError: The tables are not installed.
    """
    (tables, functions) = yield Call(
        "select pg_catalog.to_regclass('pgmq.meta') is not null, "
        "pg_catalog.to_regprocedure('pgmq.create(text)') is not null",
        (),
        row,
    )
    if not tables:
        raise NotInstalledError(
            "table pgmq.meta does not exist in this database; install with `pgsluice schema install`, or the tables "
            "alone with `pgsluice schema install --tables-only`"
        )
    return cast("bool", functions)


# Serialize creation and drop of queues; reads continue. Two names can fold to one table, so a row lock is not enough,
# and any role could hold an advisory lock.
_LOCK: Call[None] = Call("lock table pgmq.meta in share row exclusive mode", (), nothing)


@functools.lru_cache(maxsize=4096)
def _table(queue_name: str) -> str:
    """Return the part of a queue's table names after `q_` and `a_`.

    Raises:
        ArgumentError: The name contains a NUL or a lone surrogate.
        ServerError: The name contains characters that queue names do not allow.
        QueueNameError: Case folding of the name depends on the server's locale.
    """
    require_storable(queue_name)
    if _NOT_IN_NAMES.search(queue_name):
        raise ServerError(
            "queue name contains invalid characters: $, ;, --, or \\'; use letters, digits and underscores",
            sqlstate="P0001",
        )
    folded = "".join(c.lower() if c.isascii() else c for c in queue_name)
    if folded != queue_name.lower():
        raise QueueNameError(
            f"queue name {queue_name!r} has upper case letters outside ASCII, which servers fold differently; "
            "use lower case, or WorkQueue, which uses the functions",
            sqlstate="QU001",
        )
    return folded


def _check_name(queue_name: str) -> None:
    if len(queue_name.encode()) > NAME_BYTES_MAX:
        # PostgreSQL truncates longer identifiers with only a notice, and two queues would share one table.
        raise ServerError(
            f"queue name is too long, maximum length is {NAME_BYTES_MAX} characters; "
            f"use at most {NAME_BYTES_MAX} bytes",
            sqlstate="P0001",
        )
    if not queue_name:
        raise QueueNameError(
            f"queue name is empty; give the queue a name of 1 to {NAME_BYTES_MAX} bytes",
            sqlstate="QU001",
        )
    if any(unicodedata.category(c) == "Cc" for c in queue_name):
        raise QueueNameError(
            f"queue name {queue_name!r} contains control characters; use letters, digits and underscores",
            sqlstate="QU001",
        )


@functools.lru_cache(maxsize=4096)
def _on(statement: LiteralString, table: str) -> LiteralString:
    """Return a statement on one queue; its constant text lets the driver prepare it once."""
    return _composed(
        statement,
        queue=_name("pgmq", f"q_{table}"),
        archive=_name("pgmq", f"a_{table}"),
        ids=_name("pgmq", f"q_{table}_msg_id_seq"),
    )


def _on_index(statement: LiteralString, table: str, queue_name: str) -> LiteralString:
    return _composed(
        statement,
        queue=_name("pgmq", f"q_{table}"),
        archive=_name("pgmq", f"a_{table}"),
        ready_index=_name(f"q_{table}_ready_idx"),
        vt_index=_name(f"q_{table}_vt_idx"),
        archived_at_index=_name(f"archived_at_idx_{queue_name}"),
    )


def _composed(statement: LiteralString, **names: sql.SQL) -> LiteralString:
    return sql.SQL(statement).format(**names).as_string()


def _name(*parts: str) -> sql.SQL:
    # Percent signs must be doubled in a statement with parameters.
    quoted = sql.Identifier(*parts).as_string().replace("%", "%%")
    return sql.SQL(quoted)
