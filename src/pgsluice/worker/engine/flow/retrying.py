"""Messages that are left for a retry when a worker stops because its queues are empty."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from psycopg_pool import AsyncConnectionPool

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import retries, settings
from pgsluice.errors import SluiceError

_log = logging.getLogger(__name__)


async def count_retrying(pool: AsyncConnectionPool[Any], queue_names: Iterable[str]) -> int:
    """Count the messages of queues that wait for a retry; log their number and the next time, and paused queues.

    Zero if a query fails: an older schema, or a lost connection.
    """
    runner = AsyncRunner(pool)
    retrying = 0
    try:
        for queue_name in queue_names:
            options = await runner.run(settings.queue_options(queue_name))
            if options.paused_at is not None:
                _log.warning(
                    'queue is paused queue=%s hint="pgsluice queue set %s paused=false"',
                    queue_name,
                    queue_name,
                )
            failing = await runner.run(retries.list_failing(queue_name))
            if not failing:
                continue
            count = sum(each.messages for each in failing)
            times = [each.next_retry_at for each in failing if each.next_retry_at is not None]
            retrying += count
            _log.warning(
                "messages wait for a retry queue=%s count=%d next_retry_at=%s error_type=%s "
                'hint="pgsluice queue failing %s"',
                *(queue_name, count, min(times).isoformat() if times else "now"),
                *(failing[0].error_type, queue_name),
            )
    except SluiceError as error:
        _log.info('retries not counted error="%s"', error)
    return retrying
