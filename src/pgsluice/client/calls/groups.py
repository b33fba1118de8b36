"""The readers of FIFO groups of schema `pgmq` as calls; argument names are theirs."""

from __future__ import annotations

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, nothing, record
from pgsluice.client.records import Message


def create_fifo_index(queue_name: str) -> Call[None]:
    return Call("select pgmq.create_fifo_index(%s::text)", (queue_name,), nothing, queue_name)


def create_fifo_indexes_all() -> Call[None]:
    return Call("select pgmq.create_fifo_indexes_all()", (), nothing)


def read_grouped(queue_name: str, vt: int, qty: int) -> Call[list[Message]]:
    return Call(
        "select * from pgmq.read_grouped(%s::text, %s::integer, %s::integer)",
        _claim(queue_name, vt, qty),
        record(Message),
        queue_name,
        own_transaction_sql="select message.* "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "pgmq.read_grouped(%s::text, %s::integer, %s::integer) as message "
        "order by message.msg_id",
    )


def read_grouped_rr(queue_name: str, vt: int, qty: int) -> Call[list[Message]]:
    return Call(
        "select * from pgmq.read_grouped_rr(%s::text, %s::integer, %s::integer)",
        _claim(queue_name, vt, qty),
        record(Message),
        queue_name,
        own_transaction_sql="select message.msg_id, message.read_ct, message.enqueued_at, "
        "message.last_read_at, message.vt, message.message, message.headers "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "pgmq.read_grouped_rr(%s::text, %s::integer, %s::integer) with ordinality as message "
        "order by message.ordinality",
    )


def read_grouped_head(queue_name: str, vt: int, qty: int) -> Call[list[Message]]:
    return Call(
        "select * from pgmq.read_grouped_head(%s::text, %s::integer, %s::integer)",
        _claim(queue_name, vt, qty),
        record(Message),
        queue_name,
        own_transaction_sql="select message.* "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "pgmq.read_grouped_head(%s::text, %s::integer, %s::integer) as message "
        "order by message.msg_id",
    )


def read_grouped_with_poll(
    queue_name: str, vt: int, qty: int, max_poll_seconds: int, poll_interval_ms: int
) -> Call[list[Message]]:
    return Call(
        "select * from pgmq.read_grouped_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer)",
        _poll(queue_name, vt, qty, max_poll_seconds, poll_interval_ms),
        record(Message),
        queue_name,
        own_transaction_sql="select message.* "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "pgmq.read_grouped_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer) as message "
        "order by message.msg_id",
    )


def read_grouped_rr_with_poll(
    queue_name: str, vt: int, qty: int, max_poll_seconds: int, poll_interval_ms: int
) -> Call[list[Message]]:
    return Call(
        "select * from pgmq.read_grouped_rr_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer)",
        _poll(queue_name, vt, qty, max_poll_seconds, poll_interval_ms),
        record(Message),
        queue_name,
        own_transaction_sql="select message.msg_id, message.read_ct, message.enqueued_at, "
        "message.last_read_at, message.vt, message.message, message.headers "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "pgmq.read_grouped_rr_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer) with ordinality as message "
        "order by message.ordinality",
    )


def read_grouped_head_with_poll(
    queue_name: str, vt: int, qty: int, max_poll_seconds: int, poll_interval_ms: int
) -> Call[list[Message]]:
    return Call(
        "select * from pgmq.read_grouped_head_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer)",
        _poll(queue_name, vt, qty, max_poll_seconds, poll_interval_ms),
        record(Message),
        queue_name,
        own_transaction_sql="select message.* "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "pgmq.read_grouped_head_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer) as message "
        "order by message.msg_id",
    )


def _claim(queue_name: str, vt: int, qty: int) -> tuple[str, int, int]:
    return queue_name, whole(vt, "vt", 0), whole(qty, "qty", 1)


def _poll(
    queue_name: str, vt: int, qty: int, max_poll_seconds: int, poll_interval_ms: int
) -> tuple[str, int, int, int, int]:
    return (
        *_claim(queue_name, vt, qty),
        whole(max_poll_seconds, "max_poll_seconds", 1),
        whole(poll_interval_ms, "poll_interval_ms", 1),
    )
