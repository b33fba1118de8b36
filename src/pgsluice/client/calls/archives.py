"""The functions of schema `sluice` that look, keep archives and send again, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import (
    INTEGER_MAX,
    after_id,
    known_id,
    known_ids,
    zoned_time,
)
from pgsluice.client.calls.call import Call, nothing, record, scalar
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.records import (
    ArchiveRetention,
    DeadLetter,
    Export,
    Redriven,
    Replay,
    Replayed,
    ReplayStep,
    StoredMessage,
)
from pgsluice.errors import ArgumentError


def set_retention(queue_name: str, archive_retention: timedelta | None) -> Call[None]:
    if archive_retention is not None and archive_retention < timedelta():
        raise ArgumentError(
            f"archive_retention is {archive_retention}; use 0 or more, or None to keep for ever"
        )
    sql: LiteralString = "select sluice.set_retention(%s::text, %s::interval)"
    return Call(sql, (queue_name, archive_retention), nothing, queue_name)


def list_retentions() -> Call[list[ArchiveRetention]]:
    return Call("select * from sluice.list_retentions()", (), record(ArchiveRetention))


def list_exports() -> Call[list[Export]]:
    return Call("select * from sluice.list_exports()", (), record(Export))


def drop_export(queue_name: str, export_name: str) -> Call[bool]:
    sql: LiteralString = "select sluice.drop_export(%s::text, %s::text)"
    return Call(sql, (queue_name, export_name), scalar, queue_name)


def peek(queue_name: str, qty: int, after_msg_id: int | None) -> Call[list[StoredMessage]]:
    parameters = (queue_name, _qty(qty), after_id(after_msg_id, "after_msg_id"))
    sql: LiteralString = "select * from sluice.peek(%s::text, %s::integer, %s::bigint)"
    return Call(sql, parameters, record(StoredMessage), queue_name)


def get_messages(queue_name: str, msg_ids: Sequence[int]) -> Call[list[StoredMessage]]:
    sql: LiteralString = "select * from sluice.get_messages(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, known_ids(msg_ids, "msg_id")), record(StoredMessage), queue_name)


def browse(
    queue_name: str,
    relation: str,
    after_msg_id: int | None,
    qty: int,
    conditional: dict[str, Any] | None,
    conditional_headers: dict[str, Any] | None,
    since: datetime | None,
    until: datetime | None,
) -> Call[list[StoredMessage]]:
    parameters = (
        queue_name,
        relation,
        after_id(after_msg_id, "after_msg_id"),
        _qty(qty),
        *_filter(conditional, conditional_headers, since, until),
    )
    sql: LiteralString = (
        "select * from sluice.browse(%s::text, %s::text, %s::bigint, %s::integer, "
        "%s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, record(StoredMessage), queue_name)


def count_messages(
    queue_name: str,
    relation: str,
    conditional: dict[str, Any] | None,
    conditional_headers: dict[str, Any] | None,
    since: datetime | None,
    until: datetime | None,
) -> Call[int]:
    parameters = (queue_name, relation, *_filter(conditional, conditional_headers, since, until))
    sql: LiteralString = (
        "select sluice.count_messages("
        "%s::text, %s::text, %s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, scalar, queue_name)


def replay(
    queue_name: str, msg_ids: Sequence[int], target_queue_name: str | None
) -> Call[list[Replayed]]:
    sql: LiteralString = "select * from sluice.replay(%s::text, %s::bigint[], %s::text)"
    return Call(
        sql, (queue_name, known_ids(msg_ids, "msg_id"), target_queue_name), record(Replayed)
    )


def start_replay(
    queue_name: str,
    target_queue_name: str | None,
    conditional: dict[str, Any] | None,
    conditional_headers: dict[str, Any] | None,
    since: datetime | None,
    until: datetime | None,
) -> Call[int]:
    parameters = (
        queue_name,
        target_queue_name,
        *_filter(conditional, conditional_headers, since, until),
    )
    sql: LiteralString = (
        "select sluice.start_replay("
        "%s::text, %s::text, %s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, scalar)


def continue_replay(replay_id: int, qty: int) -> Call[ReplayStep]:
    return Call(
        "select * from sluice.continue_replay(%s::bigint, %s::integer)",
        (known_id(replay_id, "replay_id"), _qty(qty)),
        lambda rows: ReplayStep(*rows[0]),
    )


def list_replays() -> Call[list[Replay]]:
    return Call("select * from sluice.list_replays()", (), record(Replay))


def browse_dead_letters(
    queue_name: str,
    after_dead_letter_id: int | None,
    qty: int,
    conditional: dict[str, Any] | None,
    conditional_headers: dict[str, Any] | None,
    since: datetime | None,
    until: datetime | None,
    reason: str | None,
    error_type: str | None,
) -> Call[list[DeadLetter]]:
    parameters = (
        queue_name,
        after_id(after_dead_letter_id, "after_dead_letter_id"),
        _qty(qty),
        *_filter(conditional, conditional_headers, since, until),
        reason,
        error_type,
    )
    sql: LiteralString = (
        "select dead_letter_id, queue_name, msg_id, read_ct, enqueued_at, last_read_at, message, "
        "headers, reason, error, dead_at, attempts, first_failed_at, error_type, trace, worker "
        "from sluice.browse_dead_letters(%s::text, %s::bigint, %s::integer, "
        "%s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz, %s::text, %s::text)"
    )
    return Call(sql, parameters, record(DeadLetter))


def count_dead_letters(
    queue_name: str,
    conditional: dict[str, Any] | None,
    conditional_headers: dict[str, Any] | None,
    since: datetime | None,
    until: datetime | None,
    reason: str | None,
    error_type: str | None,
) -> Call[int]:
    parameters = (
        queue_name,
        *_filter(conditional, conditional_headers, since, until),
        reason,
        error_type,
    )
    sql: LiteralString = (
        "select sluice.count_dead_letters("
        "%s::text, %s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz, %s::text, %s::text)"
    )
    return Call(sql, parameters, scalar)


def redrive(
    queue_name: str, dead_letter_ids: Sequence[int], target_queue_name: str | None
) -> Call[list[Redriven]]:
    parameters = (queue_name, known_ids(dead_letter_ids, "dead_letter_id"), target_queue_name)
    sql: LiteralString = "select * from sluice.redrive(%s::text, %s::bigint[], %s::text)"
    return Call(sql, parameters, record(Redriven))


def redrive_matching(
    queue_name: str,
    target_queue_name: str | None,
    after_dead_letter_id: int | None,
    qty: int,
    conditional: dict[str, Any] | None,
    conditional_headers: dict[str, Any] | None,
    since: datetime | None,
    until: datetime | None,
    reason: str | None,
    error_type: str | None,
) -> Call[list[Redriven]]:
    parameters = (
        queue_name,
        target_queue_name,
        after_id(after_dead_letter_id, "after_dead_letter_id"),
        _qty(qty),
        *_filter(conditional, conditional_headers, since, until),
        reason,
        error_type,
    )
    sql: LiteralString = (
        "select * from sluice.redrive_matching(%s::text, %s::text, %s::bigint, %s::integer, "
        "%s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz, %s::text, %s::text)"
    )
    return Call(sql, parameters, record(Redriven))


def purge_dead_letters(
    queue_name: str,
    older_than: timedelta | None,
    dead_letter_ids: Sequence[int] | None,
    qty: int,
) -> Call[int]:
    ids = None if dead_letter_ids is None else known_ids(dead_letter_ids, "dead_letter_id")
    sql: LiteralString = (
        "select sluice.purge_dead_letters(%s::text, %s::interval, %s::bigint[], %s::integer)"
    )
    return Call(sql, (queue_name, older_than, ids, _qty(qty)), scalar)


def _filter(
    conditional: dict[str, Any] | None,
    conditional_headers: dict[str, Any] | None,
    since: datetime | None,
    until: datetime | None,
) -> tuple[Any, ...]:
    return (
        json_parameter(conditional, "conditional"),
        json_parameter(conditional_headers, "conditional_headers"),
        zoned_time(since, "since"),
        zoned_time(until, "until"),
    )


def _qty(value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError(f"qty is {value!r}; use a whole number")
    if not 1 <= value <= INTEGER_MAX:
        raise ArgumentError(f"qty is {value}; use 1 to {INTEGER_MAX}")
    return value
