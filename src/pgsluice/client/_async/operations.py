# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncOperations`: its methods run the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.client import calls
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.sources import AsyncConnectable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from typing import Any, Literal

    from pgsluice.client.explain_records import ExplainedFact
    from pgsluice.client.limit_records import BlockedMessages, LimitUsage
    from pgsluice.client.operation_records import (
        HandlerPolicy,
        HandlerTimes,
        OperatorAction,
        PurgedMessages,
        QueueExtent,
        WorkerProcess,
    )
    from pgsluice.client.records import (
        MaintenanceFailure,
        MaintenanceStep,
        NotifyThrottle,
        Partition,
        QueueStream,
    )
    from pgsluice.client.result_records import MessageResult
    from pgsluice.client.retry_records import FailingMessages, MessageAttempts
    from pgsluice.client.sample_records import NewestSample, QueueState, Sample
    from pgsluice.client.search_records import FoundMessages


class AsyncOperations:
    """Observe workers, samples, failures and actions of operators; explain queues; maintain and purge.

    Methods on one queue raise QueueNotFoundError if the queue does not exist. All methods can raise
    ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectable) -> None:
        """Use a pool or a connection.

        Args:
            source: As for `Archive`.
        """
        self._runner = AsyncRunner(source)

    async def explain_message(self, queue_name: str, msg_id: int) -> list[ExplainedFact]:
        """Explain a message: its state, history, the reasons why it is not running now, and what happens next.

        Returns:
            The facts, in order. `state` in the detail of the first is `ready`, `delayed`, `in flight`, `retrying`,
            `released`, `archived`, `dead`, `gone` (the id was used, and no message has it now) or `unknown` (the id was
            never used).

        Raises:
            QueueNotFoundError: The queue does not exist.

        Source: `sluice.explain_message`.
        """
        return await self._runner.run(calls.explain.explain_message(queue_name, msg_id))

    async def explain_queue(self, queue_name: str) -> list[ExplainedFact]:
        """Explain a queue: its messages by state, its history, the reasons why none is claimed, and what happens next.

        Raises:
            QueueNotFoundError: The queue does not exist.

        Source: `sluice.explain_queue`.
        """
        return await self._runner.run(calls.explain.explain_queue(queue_name))

    async def explain_key(self, queue_name: str, key: str) -> list[ExplainedFact]:
        """Explain a key of a queue (header `x-pgmq-group`): its messages, and what blocks the first visible one.

        Requires the role sluice_reader, as keys are parts of messages.

        Raises:
            QueueNotFoundError: The queue does not exist.

        Source: `sluice.explain_key`.
        """
        return await self._runner.run(calls.explain.explain_key(queue_name, key))

    async def create_fifo_index(self, queue_name: str) -> None:
        """Create the indexes for the `read_grouped` methods; do nothing if they exist.

        Without the indexes, these methods scan the whole queue on each call. With them, each send costs a little more.
        Maintenance creates them after the first such call, unless the queue has less than 1 MB or more than 256 MB.
        Takes a SHARE lock on the table: producers and readers wait until the indexes are built.

        Source: PGMQ 1.13.0 `pgmq.create_fifo_index`; differences in sql/pgmq/README.md.
        """
        await self._runner.run(calls.groups.create_fifo_index(queue_name))

    async def create_fifo_indexes_all(self) -> None:
        """Call `create_fifo_index` for every queue, by name.

        Source: PGMQ 1.13.0 `pgmq.create_fifo_indexes_all`.
        """
        await self._runner.run(calls.groups.create_fifo_indexes_all())

    async def list_limit_usage(self) -> list[LimitUsage]:
        """Return the usage of the limits of every queue with a `fleet_concurrency` or a `rate`, by name.

        Source: `sluice.list_limit_usage`.
        """
        return await self._runner.run(calls.limits.list_limit_usage())

    async def list_blocked_messages(self, queue_name: str) -> list[BlockedMessages]:
        """Return the blocked keys of a queue with the reason, longest blocked first.

        Raises:
            QueueNotFoundError: The queue does not exist.

        Source: `sluice.list_blocked_keys`.
        """
        return await self._runner.run(calls.limits.list_blocked_messages(queue_name))

    async def unpark_messages(self, queue_name: str, key: str) -> bool:
        """Unpark a key: its messages can be read again in order, starting with the one that awaited its retry.

        Returns:
            False when the key is not parked.

        Raises:
            QueueNotFoundError: The queue does not exist.

        Source: `sluice.unpark_key`.
        """
        return await self._runner.run(calls.limits.unpark_messages(queue_name, key))

    async def enable_notify_insert(
        self, queue_name: str, *, throttle_interval_ms: int = 250
    ) -> None:
        """Notify listeners when new messages are committed; if already enabled, only set the interval.

        The channel is `pgmq.q_<name in lower case>.INSERT`, or the same with the name as created; the payload is empty.
        Notifications are hints. None is sent for a message within an interval of the last notification, when a delayed
        message becomes visible, or while the server's notification queue is half full; and duplicates occur. So a
        listener reads until the queue is empty, again one interval later, and periodically without a notification.

        The first call waits for open transactions that send to the queue, and blocks new ones meanwhile.

        Args:
            queue_name: An existing queue, spelled as created.
            throttle_interval_ms: Minimum interval between notifications in milliseconds; 0: every sending statement
                notifies.

        Raises:
            ArgumentError: The interval is negative or not whole.
            ServerError: The queue does not exist in this spelling.

        Source: PGMQ 1.13.0 `pgmq.enable_notify_insert`; differences in sql/pgmq/README.md.
        """
        await self._runner.run(
            calls.notify.enable_notify_insert(queue_name, throttle_interval_ms=throttle_interval_ms)
        )

    async def disable_notify_insert(self, queue_name: str) -> None:
        """Disable notifications of new messages; do nothing if they are not enabled or the queue does not exist.

        Waits for open transactions that use the queue, and blocks new ones meanwhile.

        Source: PGMQ 1.13.0 `pgmq.disable_notify_insert`.
        """
        await self._runner.run(calls.notify.disable_notify_insert(queue_name))

    async def update_notify_insert(self, queue_name: str, *, throttle_interval_ms: int) -> None:
        """Change the minimum interval between notifications, without a lock on the queue; the next message notifies.

        Args:
            queue_name: A queue with notifications enabled, spelled as created.
            throttle_interval_ms: As for `enable_notify_insert`.

        Raises:
            ArgumentError: The interval is negative or not whole.
            ServerError: The queue does not exist, or has no notifications enabled; the error tells the cases apart.

        Source: PGMQ 1.13.0 `pgmq.update_notify_insert`.
        """
        await self._runner.run(
            calls.notify.update_notify_insert(queue_name, throttle_interval_ms=throttle_interval_ms)
        )

    async def list_notify_insert_throttles(self) -> list[NotifyThrottle]:
        """Return every queue with notifications enabled, by name.

        Source: PGMQ 1.13.0 `pgmq.list_notify_insert_throttles`.
        """
        return await self._runner.run(calls.notify.list_notify_insert_throttles())

    async def list_workers(self) -> list[WorkerProcess]:
        """Return the worker processes with what they run, by app and host; also those lost in the last 24 hours.

        Source: `sluice.list_workers`.
        """
        return await self._runner.run(calls.operations.list_workers())

    async def handler_policies(self, source: str) -> list[HandlerPolicy]:
        """Return the retry policies that handlers of live workers declare for a source, by app and handler.

        Args:
            source: As in `WorkerProcess.sources`: `queue Q`, `log L group G` or `log L consumer C`.

        Source: `sluice.handler_policies`.
        """
        return await self._runner.run(calls.operations.handler_policies(source))

    async def list_handler_times(
        self, *, of_source: str | None = None, of_worker: str | None = None
    ) -> list[HandlerTimes]:
        """Return how long the calls of handlers took in the last five to ten minutes, over all live workers.

        Handlers without a finished call in this time are not returned.

        Args:
            of_source: As in `WorkerProcess.sources`: `queue Q`, `log L group G` or `log L consumer C`; None: all.
            of_worker: The `worker_id` of one worker; None: all.

        Source: `sluice.list_handler_times`.
        """
        return await self._runner.run(
            calls.operations.list_handler_times(of_source=of_source, of_worker=of_worker)
        )

    async def list_actions(
        self, of_queue: str | None = None, *, before_action_id: int | None = None, qty: int = 100
    ) -> list[OperatorAction]:
        """Return the actions of operators, newest first, such as pauses, redrives, purges and dropped queues.

        Args:
            of_queue: A queue or log; None: all actions.
            before_action_id: Only actions with a lower id, for the next page.
            qty: The most to return, 1 or more.

        Raises:
            ArgumentError: `qty` is out of range.

        Source: `sluice.list_actions`.
        """
        return await self._runner.run(
            calls.operations.list_actions(of_queue, before_action_id=before_action_id, qty=qty)
        )

    async def note_action(
        self,
        action: str,
        *,
        queue_name: str | None = None,
        of_filter: dict[str, Any] | None = None,
        message_count: int | None = None,
        note: str | None = None,
    ) -> None:
        """Record an action of an operator in its transaction, for `list_actions`.

        The functions that `list_actions` names record themselves. PGMQ's functions for messages do not, as workers call
        them: a tool with which an operator sends or deletes a message records it with this method.

        Args:
            action: The name of the function.
            queue_name: The queue or log; None: the action concerns none.
            of_filter: The arguments that chose the messages or the object.
            message_count: Messages or events that were sent, moved or deleted.
            note: A note of the operator.

        Source: `sluice.note_action`.
        """
        await self._runner.run(
            calls.operations.note_action(
                action,
                queue_name=queue_name,
                of_filter=of_filter,
                message_count=message_count,
                note=note,
            )
        )

    async def queue_extent(self, queue_name: str, *, upto_msg_id: int | None = None) -> QueueExtent:
        """Return the number of messages in a queue, an estimate above 5,000, and the highest msg_id.

        Args:
            queue_name: An existing queue.
            upto_msg_id: Only messages up to this msg_id; None: all.

        Raises:
            QueueNotFoundError: The queue does not exist.

        Source: `sluice.queue_extent`.
        """
        return await self._runner.run(
            calls.operations.queue_extent(queue_name, upto_msg_id=upto_msg_id)
        )

    async def purge_messages(
        self,
        queue_name: str,
        upto_msg_id: int,
        *,
        after_msg_id: int | None = None,
        qty: int = 10000,
    ) -> PurgedMessages:
        """Delete messages up to a msg_id, visible or not; call it, and commit, until it deletes 0.

        Unlike `purge_queue`, it does not lock the queue, and leaves messages that are sent meanwhile. It skips messages
        that another transaction has locked.

        Args:
            queue_name: An existing queue.
            upto_msg_id: The highest msg_id to delete, as from `queue_extent`.
            after_msg_id: Only messages with a higher msg_id: the `last_msg_id` of the previous call; None: start at the
                first.
            qty: The most to delete, 1 or more.

        Raises:
            QueueNotFoundError: The queue does not exist.
            ArgumentError: An id or `qty` is out of range. Nothing was deleted.

        Source: `sluice.purge_messages`.
        """
        return await self._runner.run(
            calls.operations.purge_messages(
                queue_name, upto_msg_id, after_msg_id=after_msg_id, qty=qty
            )
        )

    async def list_partitions(self, queue_name: str) -> list[Partition]:
        """Return the partitions of a queue, then those of its archive, in order, each with its default partition last.

        Empty if the queue is not partitioned or does not exist.
        """
        return await self._runner.run(calls.partitions.list_partitions(queue_name))

    async def maintain(self) -> list[MaintenanceStep]:
        """Run the next part of the maintenance of queues. Call it every few seconds.

        A call takes a fraction of a second, and concurrent calls share the work. It waits no longer for locks; a table
        in use is left to a later call. Locks are held until the end of the transaction, so give each call its own.

        Returns:
            One record for each task done or postponed. Empty: nothing to do.

        Raises:
            ServerError: The transaction is not READ COMMITTED.
        """
        return await self._runner.run(calls.partitions.maintain())

    async def list_failures(self) -> list[MaintenanceFailure]:
        """Return maintenance tasks whose last attempt failed, of queues, logs and share groups.

        A failure is removed when the task succeeds, and a day after the last attempt.

        Raises:
            PrivilegeError: The role is not a member of `sluice_admin` or `pgq_admin`.

        Source: `sluice.list_failures`.
        """
        return await self._runner.run(calls.partitions.list_failures())

    async def get_result(self, queue_name: str, msg_id: int) -> MessageResult:
        """Return the state of a message, and the result of its handler if one is kept.

        Args:
            queue_name: An existing queue, whose handler has the option `keep_result`.
            msg_id: The message, as returned by the send.

        Returns:
            The state and the result; the state `gone` also for an id that was never used.

        Source: `sluice.get_result`.
        """
        return await self._runner.run(calls.results.get_result(queue_name, msg_id))

    async def count_retrying(self, queue_name: str) -> int:
        """Count the messages of a queue that failed and wait for a retry.

        Args:
            queue_name: An existing queue.

        Source: `sluice.count_retrying`.
        """
        return await self._runner.run(calls.retries.count_retrying(queue_name))

    async def list_attempts(self, queue_name: str, msg_ids: Sequence[int]) -> list[MessageAttempts]:
        """Return the recorded attempts of messages of a queue or its dead letters, with the last error, by msg_id.

        Only messages with a failed, released or repeated attempt have a record.

        Args:
            queue_name: An existing queue.
            msg_ids: The messages.

        Source: `sluice.list_attempts`.
        """
        return await self._runner.run(calls.retries.list_attempts(queue_name, msg_ids))

    async def list_failing(self, of_queue: str | None = None) -> list[FailingMessages]:
        """Return failed messages that are still retried, grouped by queue and error, most frequent error first.

        Args:
            of_queue: An existing queue; None: all.

        Raises:
            QueueNotFoundError: The queue does not exist.

        Source: `sluice.list_failing`.
        """
        return await self._runner.run(calls.retries.list_failing(of_queue))

    async def list_queue_states(self, *, after_name: str = "", qty: int = 1000) -> list[QueueState]:
        """Return the figures of queues by name, at a bounded cost per queue.

        Args:
            after_name: Only queues whose name sorts after this one; for paging.
            qty: Maximum number of queues.

        Source: `sluice.list_queue_states`.
        """
        return await self._runner.run(
            calls.samples.list_queue_states(after_name=after_name, qty=qty)
        )

    async def take_samples(self) -> int:
        """Append a sample of each queue, consumer and share group, and of all queues together.

        Maintenance does so every 10 seconds.

        Returns:
            The number of samples, without that of all queues; 0 if samples were taken in the last five seconds, or
            another session is taking them.

        Source: `sluice.take_samples`.
        """
        return await self._runner.run(calls.samples.take_samples())

    async def list_samples(
        self,
        kind: str,
        name: str,
        *,
        since: datetime | None = None,
        reader_name: str | None = None,
        until: datetime | None = None,
        every: timedelta | None = None,
    ) -> list[Sample]:
        """Return samples by reader and time: every 10 seconds of the last hour, every minute of the last day, every 15
        minutes of the last month.

        Args:
            kind: `queue`, `consumer` or `group`; or `queues`: all queues together, in sums.
            name: Name of the queue, or of the log of consumers and share groups; of all queues, an empty text.
            since: Start; None: an hour ago. It selects the interval, as above.
            reader_name: Only this consumer or share group.
            until: Only earlier samples.
            every: The interval, rounded down to 15 minutes, a minute or 10 seconds; None: selected by `since`.

        Source: `sluice.list_samples`.
        """
        return await self._runner.run(
            calls.samples.list_samples(
                kind, name, since=since, reader_name=reader_name, until=until, every=every
            )
        )

    async def list_newest_samples(self, kind: str) -> list[NewestSample]:
        """Return the newest sample of each queue, consumer or share group, by name, if it is at most five minutes old.

        Args:
            kind: `queue`, `consumer` or `group`.

        Source: `sluice.list_newest_samples`.
        """
        return await self._runner.run(calls.samples.list_newest_samples(kind))

    async def search_messages(
        self,
        queue_name: str,
        relation: str = "queue",
        *,
        of_state: Literal["visible", "in flight", "retrying", "delayed"] | None = None,
        after_msg_id: int | None = None,
        after_vt: datetime | None = None,
        newest_first: bool = True,
        qty: int = 100,
        scan: int = 10000,
        key: str | None = None,
        conditional: Any = None,
        since: datetime | None = None,
        until: datetime | None = None,
        with_contents: bool = True,
        message_bytes_max: int | None = None,
        matching: str | None = None,
        searched_bytes_max: int | None = None,
    ) -> FoundMessages:
        """Search the messages of a queue at a bounded cost; visibility timeouts stay as they are.

        A search ends after `qty` messages that match, or `scan` messages in all; it can be continued where it ended.

        Args:
            queue_name: An existing queue.
            relation: `queue`, `archive`, `dead letters`, or `all` of them in one order of `msg_id`.
            of_state: Only messages in this state, for relation `queue`; None: all.
            after_msg_id: `searched_msg_id` of the search to continue; None: start.
            after_vt: Its `searched_vt`.
            newest_first: Highest `msg_id` first; for those in flight, retrying or delayed, the latest `vt` first.
            qty: The most to return, 1 or more.
            scan: The most to look at, 1 or more.
            key: Only messages with this key (header `x-pgmq-group`).
            conditional: Only messages that contain this JSON value (`message @> conditional`).
            since: Only messages sent at this time or later, with a time zone. Messages of a transaction that took
                longer than a minute may be missed, as with `until`.
            until: Only messages sent before this time, with a time zone.
            with_contents: False: leave out payloads, headers and `archived_at`; sluice_monitor may do so.
            message_bytes_max: Leave out payloads that are stored in more bytes; None: none.
            matching: Only messages with this msg_id or key, or with this text in the payload or the headers, in upper
                or lower case; a JSON object or array is contained in the payload or the headers.
            searched_bytes_max: Do not search payloads that are stored in more bytes, only the msg_id, key and headers
                of such messages; None: search all.

        Raises:
            ArgumentError: `qty` or `scan` is out of range, `relation` or `of_state` is unknown, or a time has no zone.
            PayloadError: `conditional` is not JSON.

        Source: `sluice.search_messages`.
        """
        return await self._runner.run(
            calls.searching.search_messages(
                queue_name,
                relation,
                of_state=of_state,
                after_msg_id=after_msg_id,
                after_vt=after_vt,
                newest_first=newest_first,
                qty=qty,
                scan=scan,
                key=key,
                conditional=conditional,
                since=since,
                until=until,
                with_contents=with_contents,
                message_bytes_max=message_bytes_max,
                matching=matching,
                searched_bytes_max=searched_bytes_max,
            )
        )

    async def queue_stream_drop(self, stream_name: str) -> int | None:
        """Drop a stream of a queue; its unsettled messages become visible immediately.

        Args:
            stream_name: The option `consumer` of the Spark query. Stop the query first: messages that it stored but did
                not settle are delivered twice, and a restart from its checkpoint fails with the reason.

        Returns:
            The number of messages released; None if the stream does not exist.

        Source: `sluice.queue_stream_drop`.
        """
        return await self._runner.run(calls.spark_claims.queue_stream_drop(stream_name))

    async def list_queue_streams(self) -> list[QueueStream]:
        """Return the streams of queues, by name, with their unsettled messages.

        Source: `sluice.list_queue_streams`.
        """
        return await self._runner.run(calls.spark_claims.list_queue_streams())

    async def enable_successors(self, queue_name: str) -> None:
        """Allow messages that run after messages of this queue, see `after` of `WorkQueue.send`.

        Creates triggers on the queue, once: readers and senders of the queue wait for the commit of this call. Requires
        the role sluice_admin.

        Args:
            queue_name: An existing queue.

        Source: `sluice.enable_successors`.
        """
        await self._runner.run(calls.successors.enable_successors(queue_name))
