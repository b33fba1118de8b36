"""Options of work queues, set with SQL."""

from __future__ import annotations

import json

import psycopg

from support import value

NO_LIMITS = dict.fromkeys(
    (
        *("fleet_concurrency", "key_concurrency", "rate", "rate_interval"),
        *("when_waiting", "priority_weights"),
    )
)


def set_queue_options(connection: psycopg.Connection, queue: str, **options: object) -> object:
    """Set options of a queue, durations as text; return `changed` or `unchanged`."""
    return value(
        connection,
        "select sluice.set_queue_options(%s, %s)",
        queue,
        json.dumps(options),
    )
