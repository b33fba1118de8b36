"""Wake-ups between the notifier and the listeners: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, LiteralString, NamedTuple

from pgsluice.client.calls.call import Call, nothing, one, record, scalar

ChannelKind = Literal["queue", "log", "results"]


class QueueIds(NamedTuple):
    """A queue and the oid of its id sequence, or None without a sequence."""

    queue_name: str
    id_sequence: int | None


class Pulse(NamedTuple):
    """First step of a notifier's round; times are seconds since 1970 by the server's clock.

    Attributes:
        is_leader: True if this notifier is the leader; else the other fields are meaningless.
        last_ids: The last id of each requested sequence, None before the first; None as a whole if they could not be
            read this time.
        first_ready: The lowest id of the messages that were announced, per queue; None as `last_ids`.
        last_ready: The highest of these.
    """

    is_leader: bool
    server_time_s: float
    last_ids: list[int | None] | None
    first_ready: list[int | None] | None = None
    last_ready: list[int | None] | None = None


class Watch(NamedTuple):
    """A queue for which a notifier waits.

    Attributes:
        queue: The queue.
        known_id: The last id of its sequence that the notifier knows.
        seen_id: The highest id of a message that it has seen.
        is_pending: True if a message above that may become visible at any time.
    """

    queue: QueueIds
    known_id: int | None
    seen_id: int | None
    is_pending: bool


class Ends(NamedTuple):
    """First and last readable and deferred messages of a queue, None without any; times as in `Pulse`."""

    first_ready: int | None
    last_ready: int | None
    first_due_s: float | None
    last_due_s: float | None


class Ping(NamedTuple):
    """A listener's own channel, and seconds since a notifier's last poll (None: never)."""

    channel: str
    notifier_age_s: float | None


class Due(NamedTuple):
    """Next due time (None: never) and time of the query, both by the server's clock."""

    due_at: datetime | None
    queried_at: datetime


class QueuePoll(NamedTuple):
    """Poll result of one queue: ends, next due time (None after a poll with a lower bound) and cost of the poll."""

    queue_name: str
    ends: Ends
    next_due_s: float | None
    cost_s: float


def listen(queue_name: str | None, kind: ChannelKind = "queue") -> Call[str | None]:
    return Call("select sluice.listen(%s::text, %s::text)", (queue_name, kind), scalar)


def unlisten(queue_name: str, kind: ChannelKind = "queue") -> Call[None]:
    return Call("select sluice.unlisten(%s::text, %s::text)", (queue_name, kind), nothing)


def notify_channel(queue_name: str, kind: ChannelKind = "queue") -> Call[str]:
    return Call("select sluice.notify_channel(%s::text, %s::text)", (queue_name, kind), scalar)


def notifier_age() -> Call[float | None]:
    return Call(
        "select extract(epoch from clock_timestamp() - l.called_at)::float8 from sluice.leader('notifier') as l",
        (),
        scalar,
    )


def ping_listener() -> Call[Ping]:
    # As for notifier_wake.
    sql: LiteralString = (
        "select ping.channel, extract(epoch from ping.notifier_age)::float8 "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), sluice.ping_listener() as ping"
    )
    return Call(sql, (), one(Ping))


REPORT_CHANNEL = "sluice.reports"


def listen_report_requests() -> Call[None]:
    """Listen for requests that workers report at once."""
    return Call('listen "sluice.reports"', (), nothing)


def request_reports() -> Call[None]:
    """Ask the workers of the database to report what they run; those behind a pooler report as before."""
    return Call("select pg_catalog.pg_notify('sluice.reports', '')", (), nothing)


def backend_pid() -> Call[int]:
    return Call("select pg_catalog.pg_backend_pid()", (), scalar)


def next_due(queue_name: str, after: datetime | None) -> Call[Due]:
    sql: LiteralString = (
        "select due, pg_catalog.clock_timestamp() "
        "from sluice.next_due(%s::text, %s::timestamptz) as due"
    )
    return Call(sql, (queue_name, after), _due, queue_name)


def next_capacity(queue_name: str) -> Call[Due]:
    sql: LiteralString = (
        "select due, pg_catalog.clock_timestamp() from sluice.next_capacity(%s::text) as due"
    )
    return Call(sql, (queue_name,), _due, queue_name)


def next_group_due(
    log_name: str,
    group_name: str,
    after: datetime | None,
    types: Sequence[str] | None = None,
    others: bool = False,
) -> Call[Due]:
    sql: LiteralString = (
        "select due, pg_catalog.clock_timestamp() "
        "from sluice.next_group_due(%s::text, %s::text, %s::timestamptz, %s::text[], %s::boolean) as due"
    )
    parameters = (log_name, group_name, after, None if types is None else list(types), others)
    return Call(sql, parameters, _due)


def notifier_queues() -> Call[list[QueueIds]]:
    return Call(
        "select queue_name, id_sequence::bigint from sluice.notifier_queues()", (), record(QueueIds)
    )


def notifier_pulse(
    notifier: int, standby_s: float, watches: Sequence[Watch], wait_s: float, pause_s: float
) -> Call[Pulse]:
    # As for notifier_wake.
    sql: LiteralString = (
        "select pulse.is_leader, extract(epoch from pulse.server_time)::float8, pulse.last_ids, "
        "pulse.first_ready, pulse.last_ready "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "sluice.notifier_pulse(%s::integer, make_interval(secs => %s::float8), %s::bigint[]::oid[], %s::text[], "
        "%s::bigint[], %s::bigint[], %s::boolean[], make_interval(secs => %s::float8), "
        "make_interval(secs => %s::float8)) as pulse"
    )
    parameters = (
        *(notifier, standby_s),
        [watch.queue.id_sequence for watch in watches],
        [watch.queue.queue_name for watch in watches],
        [watch.known_id for watch in watches],
        [watch.seen_id for watch in watches],
        [watch.is_pending for watch in watches],
        *(wait_s, pause_s),
    )
    return Call(sql, parameters, one(Pulse))


def notifier_poll(
    queue_names: Sequence[str],
    ready_after: Sequence[int | None],
    due_after_s: Sequence[float | None],
) -> Call[list[QueuePoll]]:
    return Call(
        "select poll.queue_name, poll.first_ready, poll.last_ready, "
        "extract(epoch from poll.first_due)::float8, extract(epoch from poll.last_due)::float8, "
        "extract(epoch from poll.next_due)::float8, extract(epoch from poll.cost)::float8 "
        "from sluice.notifier_poll(%s::text[], %s::bigint[], "
        "array(select to_timestamp(due) from unnest(%s::float8[]) with ordinality as u (due, position) "
        "order by position)) as poll",
        (list(queue_names), list(ready_after), list(due_after_s)),
        lambda rows: [QueuePoll(row[0], Ends(*row[1:5]), row[5], row[6]) for row in rows],
    )


def ticker_heartbeat(*, is_gone: bool = False) -> Call[None]:
    # A log is quiet without new events, and without a ticker: only a heartbeat distinguishes the two.
    return Call(
        "select pg_catalog.pg_notify('sluice.ticker', %s::text) "
        "where pg_catalog.pg_notification_queue_usage() < 0.5",
        ("gone" if is_gone else "",),
        nothing,
        own_transaction_sql="select pg_catalog.pg_notify('sluice.ticker', %s::text) "
        "from pg_catalog.set_config('synchronous_commit', 'off', true) "
        "where pg_catalog.pg_notification_queue_usage() < 0.5",
    )


def notifier_wake(queue_names: Sequence[str], *, heartbeat: bool) -> Call[int]:
    # A crash may lose it: after a server crash, every listener reconnects anyway.
    return Call(
        "select sluice.notifier_wake(%s::text[], %s::boolean)",
        (list(queue_names), heartbeat),
        scalar,
        own_transaction_sql="select sluice.notifier_wake(%s::text[], %s::boolean) "
        "from pg_catalog.set_config('synchronous_commit', 'off', true)",
    )


def _due(rows: Sequence[tuple[Any, ...]]) -> Due:
    return Due(*rows[0])
