# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The methods of the work queue that settle a claim while it is current, and give up those of a stream."""

from __future__ import annotations

from collections.abc import Sequence

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import claims, spark_claims
from pgsluice.client.records import ClaimOutcome, Message, QueueStream


class Claims:
    """Acknowledgements that a worker whose claim is over cannot give, and streams; a part of `WorkQueue`.

    `msg_id` and `read_ct` together name a claim. It is current until somebody else claims the message, also when its
    time is over. At the end of its range, 2,147,483,647, `read_ct` rises no more and cannot tell two claims apart.
    """

    _runner: Runner

    def delete_claimed(self, queue_name: str, messages: Sequence[Message]) -> list[ClaimOutcome]:
        """Delete claimed messages for good, those whose claim is still current.

        Args:
            queue_name: An existing queue.
            messages: As the claim returned them, in any order.

        Returns:
            The outcome of each, in their order. Nothing else was changed.

        Source: `sluice.delete`.
        """
        return self._runner.run(claims.delete(queue_name, messages))

    def archive_claimed(self, queue_name: str, messages: Sequence[Message]) -> list[ClaimOutcome]:
        """Move claimed messages into the queue's archive, those whose claim is still current.

        Args:
            queue_name: An existing queue.
            messages: As for `delete_claimed`.

        Returns:
            As for `delete_claimed`.

        Source: `sluice.archive`.
        """
        return self._runner.run(claims.archive(queue_name, messages))

    def extend_claimed(
        self, queue_name: str, messages: Sequence[Message], vt: int
    ) -> list[ClaimOutcome]:
        """Hide claimed messages for `vt` seconds from now, those whose claim is still current.

        Args:
            queue_name: An existing queue.
            messages: As for `delete_claimed`.
            vt: Seconds, 0 or more.

        Returns:
            As for `delete_claimed`.

        Raises:
            ArgumentError: `vt` is out of range. Nothing was changed.

        Source: `sluice.extend`.
        """
        return self._runner.run(claims.extend(queue_name, messages, vt))

    def release_claimed(
        self, queue_name: str, messages: Sequence[Message], *, delay: int = 0
    ) -> list[ClaimOutcome]:
        """Give claimed messages back, those whose claim is still current.

        Args:
            queue_name: An existing queue.
            messages: As for `delete_claimed`.
            delay: Seconds until they become visible, 0 or more.

        Returns:
            As for `delete_claimed`.

        Raises:
            ArgumentError: `delay` is out of range. Nothing was changed.

        Source: `sluice.release`.
        """
        return self._runner.run(claims.release_batch(queue_name, messages, delay))

    def reject(
        self, queue_name: str, msg_id: int, read_ct: int, reason: str, error: str | None = None
    ) -> bool:
        """Move a claimed message to the dead letters, if the claim is still current.

        Args:
            queue_name: An existing queue.
            msg_id: The message.
            read_ct: As the claim returned it; together they name the claim.
            reason: Why it is given up, in a word or two.
            error: The error, with its trace.

        Returns:
            False when somebody has claimed, archived or deleted it since. Then nothing was changed.

        Source: `sluice.reject`.
        """
        return self._runner.run(claims.reject(queue_name, msg_id, read_ct, reason, error))

    def release(self, queue_name: str, msg_id: int, read_ct: int, *, delay: int = 0) -> bool:
        """Give a claimed message back, if the claim is still current.

        Args:
            queue_name: An existing queue.
            msg_id: The message.
            read_ct: As the claim returned it; together they name the claim.
            delay: Seconds until it becomes visible, 0 or more.

        Returns:
            False when somebody has claimed, archived or deleted it since. Then nothing was changed.

        Source: `sluice.release`.
        """
        return self._runner.run(claims.release(queue_name, msg_id, read_ct, delay))

    def list_queue_streams(self) -> list[QueueStream]:
        """Return the streams that read queues, by name, and what each has claimed and not settled.

        Source: `sluice.list_queue_streams`.
        """
        return self._runner.run(spark_claims.list_queue_streams())

    def release_claims(self, stream_name: str) -> int | None:
        """Give up a stream of a queue: what it claimed and did not settle is visible again at once.

        Args:
            stream_name: The option `consumer` of Spark's query, which has to be stopped. What it had stored and not
                settled comes twice; started again with its checkpoint, it fails and says why.

        Returns:
            How many messages; None when there is no such stream.

        Source: `sluice.release_claims`.
        """
        return self._runner.run(spark_claims.release_claims(stream_name))
