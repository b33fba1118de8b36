# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The topic methods of the work queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import pgmq
from pgsluice.client.records import RoutingMatch, TopicBinding


class Topics:
    """Routing of messages to queues by patterns; a part of `WorkQueue`."""

    _runner: Runner

    def bind_topic(self, pattern: str, queue_name: str) -> None:
        """Let a queue get the messages whose routing key matches a pattern; twice does no harm.

        Args:
            pattern: Words joined by dots, up to 255 letters, digits, `-` and `_`; `*` stands for one word or a part of
                it, `#` for anything, dots included. So `logs.#` matches `logs.a.b`, and not `logs`.
            queue_name: An existing queue, in the upper and lower case of its creation.

        Raises:
            ServerError: The pattern cannot be one, or the queue does not exist; the message says which.

        Source: PGMQ 1.13.0 `pgmq.bind_topic`.
        """
        self._runner.run(pgmq.bind_topic(pattern, queue_name))

    def unbind_topic(self, pattern: str, queue_name: str) -> bool:
        """Take a binding away; the messages it brought stay.

        Returns:
            False when there was none.

        Raises:
            ServerError: The pattern or the name is empty.

        Source: PGMQ 1.13.0 `pgmq.unbind_topic`.
        """
        return self._runner.run(pgmq.unbind_topic(pattern, queue_name))

    def test_routing(self, routing_key: str) -> list[RoutingMatch]:
        """Return the bindings that a routing key matches, by pattern and queue; nothing is sent.

        Raises:
            ServerError: The key cannot be one; the message says why.

        Source: PGMQ 1.13.0 `pgmq.test_routing`.
        """
        return self._runner.run(pgmq.test_routing(routing_key))

    def list_topic_bindings(self, queue_name: str | None = None) -> list[TopicBinding]:
        """Return the bindings of one queue, or of all, the latest first; empty for a queue that does not exist.

        Source: PGMQ 1.13.0 `pgmq.list_topic_bindings`.
        """
        return self._runner.run(pgmq.list_topic_bindings(queue_name))

    def send_topic(
        self, routing_key: str, message: Any, *, headers: Any = None, delay: int = 0
    ) -> int:
        """Append one message to every queue bound to its routing key, once to each: to all or to none.

        Args:
            routing_key: Words joined by dots, up to 255 letters, digits, `-` and `_`.
            message: As for `send`, but None is stored as JSON null.
            headers: As for `send`.
            delay: Seconds until it becomes visible, 0 or more.

        Returns:
            How many queues got it; 0 when none is bound.

        Raises:
            PayloadError: As for `send`. Nothing was sent.
            ArgumentError: The delay is negative or not whole. Nothing was sent.
            ServerError: The key cannot be one; the message says why. Nothing was sent.

        Source: PGMQ 1.13.0 `pgmq.send_topic`.
        """
        return self._runner.run(pgmq.send_topic(routing_key, message, headers, delay))

    def send_batch_topic(
        self,
        routing_key: str,
        messages: Sequence[Any],
        *,
        headers: Sequence[Any] | None = None,
        delay: int | datetime | None = None,
    ) -> dict[str, list[int]]:
        """Append messages to every queue bound to the routing key, once to each: to all or to none.

        Args:
            routing_key: As for `send_topic`.
            messages: As for `send_batch`.
            headers: As for `send_batch`.
            delay: As for `send`, for all of them.

        Returns:
            Their msg_ids by queue, in the order of the messages; empty when no queue is bound.

        Raises:
            PayloadError: As for `send_batch`. Nothing was sent.
            ArgumentError: As for `send_batch`. Nothing was sent.
            ServerError: As for `send_topic`. Nothing was sent.

        Source: PGMQ 1.13.0 `pgmq.send_batch_topic`.
        """
        return self._runner.run(pgmq.send_batch_topic(routing_key, messages, headers, delay))
