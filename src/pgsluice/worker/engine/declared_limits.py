"""Limits that handlers declare: stored for queues at start, unless an operator set others; options of groups."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pgsluice.client import QueueLimits
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import limits
from pgsluice.client.group_records import GroupInfo, GroupOptions
from pgsluice.errors import PrivilegeError
from pgsluice.worker.handlers.handler import HandlerSpec, Limits

_log = logging.getLogger(__name__)


def compare_attempts(
    source_name: str, names: tuple[str, str], specs: Sequence[HandlerSpec], info: GroupInfo
) -> None:
    """Log handlers that declare more attempts than their group allows; a group keeps its creation options."""
    for spec in specs:
        if spec.retry is not None and spec.retry.max_attempts > info.max_attempts:
            _log.warning(
                'max_attempts exceeds group limit source="%s" group_max_attempts=%d handler=%s max_attempts=%d '
                'hint="raise the limit: pgsluice group set %s %s --max-attempts %d"',
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
            "backoff_base_s": longest.first_delay_s,
            "backoff_cap_s": longest.max_delay_s,
            "backoff_jitter": longest.jitter,
        }
    return options


async def declare_limits(
    runner: AsyncRunner, queue_name: str, declared_by: str, declared: Limits
) -> bool:
    """Store the limits that a handler declares, unless an operator set others; log each difference with both values.

    Args:
        runner: Calls the server.
        queue_name: The queue.
        declared_by: The handler.
            declared: Its limits; if empty, limits declared earlier by a handler are removed.

    Returns:
        True if the queue has limits now.

    Raises:
        ArgumentError: The limits contradict each other.
    """
    stored = await _stored(runner, queue_name)
    if _values(declared) == _values(stored):
        return stored is not None
    if stored is None or stored.declared_by is not None:
        try:
            outcome = await runner.run(
                limits.declare_queue_limits(
                    queue_name,
                    declared_by,
                    declared.fleet_concurrency,
                    declared.key_concurrency,
                    declared.rate,
                    declared.rate_s,
                    declared.when_waiting,
                )
            )
        except PrivilegeError:
            _log.warning(
                'declared limits not applied queue=%s declared="%s" stored="%s" hint="start the worker once as a '
                'member of sluice_admin, or run: pgsluice queue limits set %s"',
                *(queue_name, described(declared), described(stored), queue_name),
            )
            return stored is not None
        if outcome != "operator":
            if outcome == "changed" and stored is not None:
                _log.warning(
                    'queue limits changed queue=%s old="%s" old_handler=%s new="%s" handler=%s',
                    *(queue_name, described(stored), stored.declared_by),
                    *(described(declared), declared_by),
                )
            return _values(declared) != _values(None)
        stored = await _stored(runner, queue_name)  # an operator set them meanwhile
    if _values(declared) not in (_values(None), _values(stored)):
        _log.warning(
            'declared limits not applied queue=%s declared="%s" stored="%s" reason="set by an operator" hint="to apply '
            'the declared limits, run: pgsluice queue limits drop %s; then restart the worker"',
            *(queue_name, described(declared), described(stored), queue_name),
        )
    return stored is not None


def described(of: Limits | QueueLimits | None) -> str:
    """Format limits for a log line: `fleet_concurrency=5 rate=2/1s`, or `none`."""
    if of is None:
        return "none"
    values = {
        "fleet_concurrency": of.fleet_concurrency,
        "key_concurrency": of.key_concurrency,
        "rate": None if of.rate is None else f"{of.rate}/{of.rate_s:g}s",
        "when_waiting": of.when_waiting,
        "priority_weights": of.priority_weights if isinstance(of, QueueLimits) else None,
    }
    return " ".join(f"{name}={value}" for name, value in values.items() if value is not None) or (
        "none"
    )


def _values(of: Limits | QueueLimits | None) -> tuple[object, ...]:
    if of is None:
        return (None,) * 6
    return (
        of.fleet_concurrency,
        of.key_concurrency,
        of.rate,
        of.rate_s if of.rate is not None else None,
        of.when_waiting,
        of.priority_weights if isinstance(of, QueueLimits) else None,
    )


async def _stored(runner: AsyncRunner, queue_name: str) -> QueueLimits | None:
    every = await runner.run(limits.list_queue_limits())
    return next((each for each in every if each.queue_name.lower() == queue_name.lower()), None)
