"""Options of work queues and event logs, with the columns of the SQL functions' results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypedDict

from pgsluice.client.limit_records import WhenWaiting
from pgsluice.client.retry_records import Backoff
from pgsluice.client.unique import OnDuplicate, Until


class QueueOptions(TypedDict, total=False):
    """Options of a work queue; None stands for the default.

    Attributes:
        paused: Workers claim no messages, and finish those they have claimed. Producers are not affected, nor are
            `read` and `pop`. Default: False.
        pause_reason: Shown with the pause.
        archive_retention: Minimum age of archived messages that maintenance deletes, 0 or more. Default: keep forever.
        max_attempts: Attempts before a message is dead-lettered, 1 or more. With 1, workers record each attempt before
            it starts; after a change to 1, running workers may make one more attempt. Default: 5.
        backoff: Growth of the back-off: `constant`, `linear`, or `exponential` by `backoff_factor`. Default:
            exponential.
        backoff_base: Back-off after the first attempt, 0 or more. Default: one second.
        backoff_max: Maximum back-off, 0 or more. Default: five minutes.
        backoff_jitter: Randomise each back-off (50 to 100 %). Default: True.
        backoff_factor: Factor between successive back-offs with `exponential`, 1 or more. Default: 2.
        deduplication_window: Time after sending during which the same key is a duplicate. Keys sent before keep their
            window. Default: no deduplication; None forgets all keys.
        deduplication_until: Instead of a window, what ends a key: `claimed`, when a worker claims its message, or
            `done`, when the message has left the queue. Default: the window.
        on_duplicate: Effect of a duplicate on a message that is not claimed: `debounce` moves its delivery time,
            `replace` also replaces its payload and headers, `keep` changes nothing. Default: keep.
        fleet_concurrency: Maximum messages in flight over all processes, 1 or more. Default: no limit.
        key_concurrency: Maximum messages of one key in flight, 1 or more. The key of a message is its header
            `x-pgmq-group`; messages without it are not limited. Default: no limit.
        rate: Maximum messages claimed in any `rate_interval`, 1 or more. A message that is claimed and released without
            being handled counts. Default: no limit.
        rate_interval: Period of the rate limit, more than 0. Default: one second.
        when_waiting: Order by key: messages of a key are claimed one at a time. While a message of the key awaits its
            retry, `block` holds back the key, `skip` claims its next messages, and `park` holds back the key until
            `unpark_messages`. Default: no order by key.
        priority_weights: Weights of 2 to 9 priority levels, the most urgent first: the relative share of claims while
            several levels have messages, 0 or more. The level of a message is its header `x-pgmq-priority`, 1 being the
            most urgent; without it, the middle level. Not with limits of keys. Default: no priorities.
    """

    paused: bool | None
    pause_reason: str | None
    archive_retention: timedelta | None
    max_attempts: int | None
    backoff: Backoff | None
    backoff_base: timedelta | None
    backoff_max: timedelta | None
    backoff_jitter: bool | None
    backoff_factor: float | None
    deduplication_window: timedelta | None
    deduplication_until: Until | None
    on_duplicate: OnDuplicate | None
    fleet_concurrency: int | None
    key_concurrency: int | None
    rate: int | None
    rate_interval: timedelta | None
    when_waiting: WhenWaiting | None
    priority_weights: Sequence[int] | None


Change = Literal["changed", "unchanged"]


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The options of a work queue as they apply.

    Attributes:
        queue_name: The queue.
        paused_at: Time of the pause, or None.
        paused_by: Role and application that paused the queue, or None.
        deduplication_by: The handler that declared the deduplication, as `limits_by` for limits.
        limits_by: The handler that declared the limits, which the next start of a worker may change; None: set by an
            operator.

    The other attributes are as in `QueueOptions`, with the defaults of the retry policy; None: none.
    """

    queue_name: str
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    archive_retention: timedelta | None
    max_attempts: int
    backoff: Backoff
    backoff_base: timedelta
    backoff_max: timedelta
    backoff_jitter: bool
    backoff_factor: float
    deduplication_window: timedelta | None
    deduplication_until: Until | None
    on_duplicate: OnDuplicate | None
    deduplication_by: str | None
    fleet_concurrency: int | None
    key_concurrency: int | None
    rate: int | None
    rate_interval: timedelta | None
    when_waiting: WhenWaiting | None
    priority_weights: list[int] | None
    limits_by: str | None


class LogOptions(TypedDict, total=False):
    """Options of an event log; None stands for the default.

    Without a lag limit, the log keeps all events that a consumer has not finished, and grows. A consumer beyond a limit
    loses its position at a rotation, so that its events can be reclaimed; its next call raises PositionLostError.

    Attributes:
        ticker_max_count: Create a tick after this many events. Default: 500.
        ticker_max_lag: Create a tick when an event has waited this long. Default: 3 seconds.
        ticker_idle_period: Create a tick in an idle log this often. Default: one minute.
        ticker_paused: Create no ticks. Default: False.
        rotation_period: Minimum time between rotations. Default: 2 hours.
        external_ticker: Leave the ticks to another program. Default: False.
        max_lag_bytes: Limit of the bytes that a consumer pins, 1 or more. Default: no limit.
        max_lag_events: Limit of unfinished events, 1 or more. Default: no limit.
        max_lag_time: Limit of the position's age. Default: no limit.
        keepers: Consumers exempt from the limits. While a keeper is not registered, no segment is reclaimed.
    """

    ticker_max_count: int | None
    ticker_max_lag: timedelta | None
    ticker_idle_period: timedelta | None
    ticker_paused: bool | None
    rotation_period: timedelta | None
    external_ticker: bool | None
    max_lag_bytes: int | None
    max_lag_events: int | None
    max_lag_time: timedelta | None
    keepers: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The options of an event log as they apply; see `LogOptions`. None: no limit."""

    log_name: str
    ticker_max_count: int
    ticker_max_lag: timedelta
    ticker_idle_period: timedelta
    ticker_paused: bool
    rotation_period: timedelta
    external_ticker: bool
    max_lag_bytes: int | None
    max_lag_events: int | None
    max_lag_time: timedelta | None
    keepers: list[str]
