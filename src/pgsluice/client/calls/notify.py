"""The functions of schema `pgmq` that announce new messages, as calls; argument names are theirs."""

from __future__ import annotations

from pgsluice.client.calls.call import Call, nothing, record
from pgsluice.client.records import NotifyThrottle
from pgsluice.errors import ArgumentError

INTEGER_MAX = 2**31 - 1


def enable_notify_insert(queue_name: str, throttle_interval_ms: int = 250) -> Call[None]:
    return Call(
        "select pgmq.enable_notify_insert(%s::text, %s::integer)",
        (queue_name, _interval(throttle_interval_ms)),
        nothing,
        queue_name,
    )


def disable_notify_insert(queue_name: str) -> Call[None]:
    return Call("select pgmq.disable_notify_insert(%s::text)", (queue_name,), nothing, queue_name)


def update_notify_insert(queue_name: str, throttle_interval_ms: int) -> Call[None]:
    return Call(
        "select pgmq.update_notify_insert(%s::text, %s::integer)",
        (queue_name, _interval(throttle_interval_ms)),
        nothing,
        queue_name,
    )


def list_notify_insert_throttles() -> Call[list[NotifyThrottle]]:
    return Call("select * from pgmq.list_notify_insert_throttles()", (), record(NotifyThrottle))


def _interval(value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError(f"throttle_interval_ms is {value!r}; use a whole number")
    if not 0 <= value <= INTEGER_MAX:
        raise ArgumentError(f"throttle_interval_ms is {value}; use 0 to {INTEGER_MAX}")
    return value
