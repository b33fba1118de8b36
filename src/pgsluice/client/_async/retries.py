"""The methods of the work queue that count attempts, settle failures and keep retry policies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import retries
from pgsluice.client.records import ClaimOutcome, Message
from pgsluice.client.retry_records import (
    Backoff,
    BegunAttempt,
    FailedMessage,
    FailureOutcome,
    RetryPolicy,
)


class AsyncRetries:
    """Attempts, failures and retry policies; a part of `AsyncWorkQueue`.

    The first claim of a message counts as an attempt without a word, unless it is handed back. A later one counts when
    it was begun, and when it failed. So a message that nobody ever answers for ends among the dead letters too.
    """

    _runner: AsyncRunner

    async def set_retry_policy(
        self,
        queue_name: str,
        *,
        max_attempts: int = 5,
        backoff: Backoff = "exponential",
        backoff_base: timedelta = timedelta(seconds=1),
        backoff_max: timedelta = timedelta(minutes=5),
        backoff_jitter: bool = True,
    ) -> None:
        """Say how often messages of a queue are tried, and how long the pauses are; it counts from the next failure on.

        Args:
            queue_name: An existing queue.
            max_attempts: Attempts after which a message goes to the dead letters, 1 or more. With 1 every start is
                noted; a policy that becomes 1 while workers run may still let one more attempt happen.
            backoff: How the pauses grow: `constant`; `linear`; `exponential`, each twice the one before.
            backoff_base: The pause after the first attempt, 0 or more.
            backoff_max: The longest pause, 0 or more.
            backoff_jitter: Whether each pause is between half of it and all of it, at random.

        Raises:
            ArgumentError: It could not be followed. Nothing was changed.

        Source: `sluice.set_retry_policy`.
        """
        await self._runner.run(
            retries.set_retry_policy(
                queue_name, max_attempts, backoff, backoff_base, backoff_max, backoff_jitter
            )
        )

    async def drop_retry_policy(self, queue_name: str) -> bool:
        """Go back to the default retry policy of a queue.

        Returns:
            False when it had none of its own.

        Source: `sluice.drop_retry_policy`.
        """
        return await self._runner.run(retries.drop_retry_policy(queue_name))

    async def list_retry_policies(self) -> list[RetryPolicy]:
        """Return every queue, by name, with its retry policy.

        Source: `sluice.list_retry_policies`.
        """
        return await self._runner.run(retries.list_retry_policies())

    async def begin_attempts(
        self,
        queue_name: str,
        messages: Sequence[Message],
        *,
        worker: str | None = None,
        max_attempts: int | None = None,
    ) -> list[BegunAttempt]:
        """Note that the handlers of claimed messages start; commit before they do.

        The first claim of a message (`read_ct` is 1) needs no call, unless there is only one attempt. Said again of the
        same claim, as after a lost reply, it counts once.

        Args:
            queue_name: An existing queue.
            messages: As the claim returned them, in any order.
            worker: Who starts them; kept with the message.
            max_attempts: 1 or more; None: as the policy of the queue says.

        Returns:
            What is to become of each, in their order. Start those that are begun.

        Raises:
            ArgumentError: `max_attempts` is out of range. Nothing was changed.

        Source: `sluice.begin_attempts`.
        """
        return await self._runner.run(
            retries.begin_attempts(queue_name, messages, worker, max_attempts)
        )

    async def unanswered_starts(self, queue_name: str, messages: Sequence[Message]) -> list[int]:
        """Return which of these messages, claimed again, may have killed the process that started them last.

        Nobody heard of their last start again. A worker starts them one after the other, so that one that kills takes
        no others along.

        Args:
            queue_name: An existing queue.
            messages: As the claim returned them, those whose `read_ct` is 2 or more.

        Returns:
            Their `msg_id`s, in the order of the messages.

        Source: `sluice.unanswered_starts`.
        """
        return await self._runner.run(retries.unanswered_starts(queue_name, messages))

    async def fail(
        self,
        queue_name: str,
        failures: Sequence[FailedMessage],
        *,
        worker: str | None = None,
        policy: dict[str, Any] | None = None,
    ) -> list[FailureOutcome]:
        """Settle claimed messages whose handlers failed: each comes again after a pause, or is a dead letter.

        Said again, as after a lost reply, it changes nothing and returns what was done.

        Args:
            queue_name: An existing queue.
            failures: What failed, and why, in any order. What PostgreSQL cannot store of their texts is written out.
            worker: Who failed; kept with the message.
            policy: Fields in place of those of the queue's policy: `max_attempts`, `backoff`, `backoff_base` and
                `backoff_max` (seconds), `backoff_jitter`.

        Returns:
            What became of each, in their order.

        Raises:
            ArgumentError: A delay is out of range, or the policy could not be followed. Nothing was changed.

        Source: `sluice.fail`.
        """
        return await self._runner.run(retries.fail(queue_name, failures, worker, policy))

    async def hand_back(
        self, queue_name: str, messages: Sequence[Message], *, delay_s: float = 0.0
    ) -> list[ClaimOutcome]:
        """Give claimed messages back as if this claim had not been: it counts as no attempt.

        Args:
            queue_name: An existing queue.
            messages: As the claim returned them, in any order.
            delay_s: Seconds until they become visible, 0 or more.

        Returns:
            The outcome of each, in their order. Nothing else was changed.

        Raises:
            ArgumentError: `delay_s` is out of range. Nothing was changed.

        Source: `sluice.hand_back`.
        """
        return await self._runner.run(retries.hand_back(queue_name, messages, delay_s))

    async def lock_messages(
        self, queue_name: str, messages: Sequence[Message]
    ) -> list[ClaimOutcome]:
        """Lock claimed messages to the end of the transaction; nobody else claims them, also when their time is over.

        On a pool, where each call is a transaction of its own, it only tells which claims are current.

        Args:
            queue_name: An existing queue.
            messages: As the claim returned them, in any order.

        Returns:
            The outcome of each, in their order: `done`, it is locked.

        Source: `sluice.lock_messages`.
        """
        return await self._runner.run(retries.lock_messages(queue_name, messages))
