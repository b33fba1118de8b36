"""Limits that handlers declare: stored for queues at start, unless an operator set others; options of groups."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta

from pgsluice.client import QueueInfo, QueueOptions, QueueSettings
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import pgmq, pgq, settings
from pgsluice.client.calls.call import Steps
from pgsluice.client.group_records import GroupInfo, GroupOptions
from pgsluice.client.unique import Unique
from pgsluice.errors import PrivilegeError
from pgsluice.worker.handlers.handler import HandlerSpec, Limits, QueueRoute

_log = logging.getLogger(__name__)


def compare_attempts(
    source_name: str, names: tuple[str, str], specs: Sequence[HandlerSpec], info: GroupInfo
) -> None:
    """Log handlers that declare more attempts than their group allows; a group keeps its creation options."""
    for spec in specs:
        if spec.retry is not None and spec.retry.max_attempts > info.max_attempts:
            _log.warning(
                'max_attempts exceeds group limit source="%s" group_max_attempts=%d handler=%s max_attempts=%d '
                'hint="raise the limit: pgsluice group set %s %s max_attempts=%d"',
                *(source_name, info.max_attempts, spec.name, spec.retry.max_attempts),
                *(*names, spec.retry.max_attempts),
            )


def group_options(specs: Sequence[HandlerSpec]) -> GroupOptions:
    """Return the options of a group created for these handlers."""
    options: GroupOptions = {"lease_s": max(spec.lease_s for spec in specs)}
    retries = [spec.retry for spec in specs if spec.retry is not None]
    if len(retries) == len(specs):
        # A handler may allow fewer attempts than its group, not more.
        longest = max(retries, key=lambda retry: retry.max_attempts)
        options |= {
            "max_attempts": longest.max_attempts,
            "backoff": longest.backoff,
            "backoff_base_s": longest.backoff_base_s,
            "backoff_max_s": longest.backoff_max_s,
            "backoff_jitter": longest.backoff_jitter,
        }
    return options


def create_sources(specs: Iterable[HandlerSpec]) -> Steps[None]:
    """Create the queues and logs of handlers that do not exist, and store the limits that handlers declare.

    Limits that an operator set are kept. Existing queues and logs with the declared limits need no right to create.
    """
    queues: dict[str, QueueInfo] = {
        each.queue_name.lower(): each for each in (yield pgmq.list_queues())
    }
    logs: set[str] | None = None
    for spec in specs:
        if not isinstance(spec.route, QueueRoute):
            if logs is None:
                logs = {each.log_name for each in (yield pgq.get_queue_info())}
            if spec.route.log_name not in logs:
                yield pgq.create_queue(spec.route.log_name)
            continue
        queue_name = spec.route.queue_name
        if queue_name.lower() not in queues:
            yield pgmq.create(queue_name)
        if not _set_limits(spec.limits) and spec.unique is None:
            continue
        stored: QueueSettings = yield settings.queue_options(queue_name)
        if spec.unique is not None and _is_declarable(stored, spec.unique):
            yield settings.declare_queue_options(
                queue_name, spec.declared_by, _unique_options(spec.unique)
            )
        if not _set_limits(spec.limits):
            continue
        is_changeable = stored.limits_by is not None or not _set_limits(stored)
        if is_changeable and _values(spec.limits) != _values(stored):
            yield settings.declare_queue_options(
                queue_name, spec.declared_by, _options(spec.limits)
            )


async def declare_unique(runner: AsyncRunner, stored: QueueSettings, spec: HandlerSpec) -> None:
    """Store the deduplication that a handler declares, unless an operator set another; remove one declared before."""
    if not _is_declarable(stored, spec.unique):
        return
    declaration = settings.declare_queue_options(
        stored.queue_name, spec.declared_by, _unique_options(spec.unique)
    )
    reason = "missing privilege"
    with contextlib.suppress(PrivilegeError):
        outcome = await runner.run(declaration)
        reason = str(outcome)
    if reason in ("changed", "unchanged"):
        return
    _log.warning(
        'declared deduplication not stored queue=%s handler=%s reason="%s" hint="messages sent to the handler have it; '
        'other senders have that of the queue"',
        *(stored.queue_name, spec.declared_by, reason),
    )


def _is_declarable(stored: QueueSettings, unique: Unique | None) -> bool:
    """True if the declared deduplication differs from the stored one, which no operator has set."""
    options = _unique_options(unique)
    now = {name: getattr(stored, name) for name in options}
    is_set = stored.deduplication_window or stored.deduplication_until
    if unique is None and stored.deduplication_by is None:
        return False
    return now != options and not (is_set and stored.deduplication_by is None)


def _unique_options(unique: Unique | None) -> QueueOptions:
    of = None if unique is None else unique.options
    return {
        "deduplication_window": of and of["deduplication_window"],
        "deduplication_until": of and of["deduplication_until"],
        "on_duplicate": of and of["on_duplicate"],
    }


async def declare_limits(
    runner: AsyncRunner, stored: QueueSettings, declared_by: str, declared: Limits
) -> bool:
    """Store the limits that a handler declares, unless an operator set others; log each difference with both values.

    Args:
        runner: Calls the server.
        stored: The options of the queue.
        declared_by: The handler.
        declared: Its limits; if empty, limits declared earlier by a handler are removed.

    Returns:
        True if the queue has limits now.

    Raises:
        ArgumentError: The limits contradict each other.
    """
    queue_name = stored.queue_name
    if _values(declared) == _values(stored):
        return bool(_set_limits(stored))
    if stored.limits_by is not None or not _set_limits(stored):
        try:
            outcome = await runner.run(
                settings.declare_queue_options(queue_name, declared_by, _options(declared))
            )
        except PrivilegeError:
            _log.warning(
                'declared limits not applied queue=%s declared="%s" stored="%s" hint="start the worker once as a '
                'member of sluice_admin, or run: pgsluice queue set %s %s"',
                *(queue_name, described(declared), described(stored)),
                *(queue_name, _settings(declared, stored)),
            )
            return bool(_set_limits(stored))
        if outcome != "operator":
            if outcome == "changed" and stored.limits_by is not None:
                _log.warning(
                    'queue limits changed queue=%s old="%s" old_handler=%s new="%s" handler=%s',
                    *(queue_name, described(stored), stored.limits_by),
                    *(described(declared), declared_by),
                )
            return bool(_set_limits(declared))
        # An operator set them meanwhile.
        stored = await runner.run(settings.queue_options(queue_name))
    if _set_limits(declared) and _values(declared) != _values(stored):
        _log.warning(
            'declared limits not applied queue=%s declared="%s" stored="%s" reason="set by an operator" hint="to apply '
            'the declared limits, reset them: pgsluice queue set %s %s; then restart the worker"',
            *(queue_name, described(declared), described(stored), queue_name),
            " ".join(f"{name}=" for name in _set_limits(stored)),
        )
    return bool(_set_limits(stored))


def described(of: Limits | QueueSettings) -> str:
    """Format limits for a log line: `fleet_concurrency=5 rate=2/1s`, or `none`."""
    values = _set_limits(of)
    if "rate" in values:
        values["rate"] = f"{of.rate}/{_rate_s(of):g}s"
    if of.priority_weights is not None:
        values["priority_weights"] = ",".join(map(str, of.priority_weights))
    return " ".join(f"{name}={value}" for name, value in values.items()) or "none"


def _settings(declared: Limits, stored: QueueSettings) -> str:
    """Format the options that replace the stored limits by the declared ones: `rate=2/1s when_waiting=`."""
    limits = _set_limits(declared)
    resets = [f"{name}=" for name in _set_limits(stored) if name not in limits]
    return " ".join([described(declared), *resets] if limits else resets)


def _set_limits(of: Limits | QueueSettings) -> dict[str, object]:
    """Return the limits that are not None by name."""
    values = {
        "fleet_concurrency": of.fleet_concurrency,
        "key_concurrency": of.key_concurrency,
        "rate": of.rate,
        "when_waiting": of.when_waiting,
        "priority_weights": None if of.priority_weights is None else list(of.priority_weights),
    }
    return {name: value for name, value in values.items() if value is not None}


def _rate_s(of: Limits | QueueSettings) -> float | None:
    if of.rate is None:
        return None
    if isinstance(of, Limits):
        return of.rate_s
    return of.rate_interval.total_seconds() if of.rate_interval is not None else None


def _values(of: Limits | QueueSettings) -> tuple[object, ...]:
    return _set_limits(of), _rate_s(of)


def _options(declared: Limits) -> QueueOptions:
    return {
        "fleet_concurrency": declared.fleet_concurrency,
        "key_concurrency": declared.key_concurrency,
        "rate": declared.rate,
        "rate_interval": timedelta(seconds=declared.rate_s),
        "when_waiting": declared.when_waiting,
        "priority_weights": declared.priority_weights,
    }
