# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`DeadLetters`: its methods run the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.client import calls
from pgsluice.client._sync.runner import Runner
from pgsluice.client.sources import Connectable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from typing import Unpack

    from pgsluice.client.dead_letter_records import (
        DeadLetter,
        DeadLetterFilter,
        DeadLetterGroup,
        FoundDeadLetters,
        Redriven,
    )


class DeadLetters:
    """List, redrive and purge the dead letters of a queue, or of a share group or consumer of a log.

    A dead letter is a message or event after its last attempt, or that its handler rejected, with the reason and the
    last error. Dead letters outlive their queue, log, share group and consumer.

    All methods can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(
        self, source: Connectable, queue_name: str, consumer_name: str | None = None
    ) -> None:
        """Use a pool or a connection. Neither queue nor log is checked here.

        Args:
            source: With a pool, each call is a transaction of its own. With a connection, each call runs in the
                caller's transaction, and commits only in autocommit mode. The caller opens and closes it.
            queue_name: A queue, or a log.
            consumer_name: A share group or consumer of the log; None: `queue_name` is a queue.
        """
        self._runner = Runner(source)
        self._name = (queue_name, consumer_name)

    def browse(
        self,
        *,
        after_dead_letter_id: int | None = None,
        qty: int = 100,
        with_contents: bool = True,
        **matching: Unpack[DeadLetterFilter],
    ) -> list[DeadLetter]:
        """Return a page of dead letters.

        Args:
            after_dead_letter_id: Only dead letters with a higher id; None: start at the first.
            qty: The most to return, 1 or more.
            with_contents: False: leave out payloads, headers and traces.
            matching: Members of `DeadLetterFilter`.

        Returns:
            0 to `qty` dead letters, lowest `dead_letter_id` first; fewer than `qty`: this is the last page.

        Raises:
            ArgumentError: `qty` or an id is out of range, a time has no zone, or there is no such filter.
            PayloadError: `conditional` or `conditional_headers` has no JSON form; the error names the path.

        Source: `sluice.list_dead_letters`.
        """
        return self._runner.run(
            calls.dead_letters.browse(
                *self._name,
                after_dead_letter_id=after_dead_letter_id,
                qty=qty,
                with_contents=with_contents,
                **matching,
            )
        )

    def count(self, **matching: Unpack[DeadLetterFilter]) -> int:
        """Count the dead letters that match a filter.

        Args:
            matching: As for `browse`.

        Raises:
            ArgumentError, PayloadError: As for `browse`.

        Source: `sluice.count_dead_letters`.
        """
        return self._runner.run(calls.dead_letters.count(*self._name, **matching))

    def search(
        self,
        *,
        before_dead_letter_id: int | None = None,
        qty: int = 100,
        scan: int = 10000,
        with_contents: bool = True,
        **matching: Unpack[DeadLetterFilter],
    ) -> FoundDeadLetters:
        """Search dead letters at a bounded cost, newest first.

        A search ends after `qty` dead letters that match, or `scan` dead letters in all; it can be continued.

        Args:
            before_dead_letter_id: `searched_dead_letter_id` of the search to continue; None: start at the newest.
            qty: The most to return, 1 or more.
            scan: The most to look at, 1 or more.
            with_contents: False: leave out payloads, headers and traces.
            matching: As for `browse`.

        Raises:
            ArgumentError, PayloadError: As for `browse`.

        Source: `sluice.list_dead_letters`.
        """
        return self._runner.run(
            calls.dead_letters.search(
                *self._name,
                before_dead_letter_id=before_dead_letter_id,
                qty=qty,
                scan=scan,
                with_contents=with_contents,
                **matching,
            )
        )

    def group_by_error(self, *, qty: int = 10000) -> list[DeadLetterGroup]:
        """Return the newest dead letters grouped by reason and error, the most frequent first.

        Args:
            qty: The most to group, 1 or more. As many in all groups together mean that there may be older ones.

        Raises:
            ArgumentError: `qty` is out of range.

        Source: `sluice.group_dead_letters`.
        """
        return self._runner.run(calls.dead_letters.group_by_error(*self._name, qty=qty))

    def redrive(
        self, dead_letter_ids: Sequence[int], *, target_queue_name: str | None = None
    ) -> list[Redriven]:
        """Redrive dead letters: move them back to their queue, share group or consumer.

        A message becomes a new message, which is visible immediately and keeps the headers. An event becomes a new
        event of the log that only its share group or consumer receives, or with `target_queue_name` a message: an
        object with the fields of the event. Messages get the header `x-pgmq-replayed-from`: an object with `queue` and
        `msg_id`, or `log`, `consumer` and `ev_id`, with `dead_letter_id`, `dead_at` and `reason`, and with `headers` if
        the original headers were not an object. Concurrent calls move each dead letter once.

        Args:
            dead_letter_ids: Ids of the dead letters; all are moved in one transaction.
            target_queue_name: A queue to move them to; None: where they came from.

        Returns:
            The dead letters found with their new ids, each once, lowest `dead_letter_id` first.

        Raises:
            QueueNotFoundError: The queue to move them to does not exist; the error names it. Nothing was moved.
            GroupNotFoundError: The log has neither a share group nor a consumer of this name. Nothing was moved.
            LogNotFoundError: The log does not exist. Nothing was moved.

        Source: `sluice.redrive`.
        """
        return self._runner.run(
            calls.dead_letters.redrive(
                *self._name, dead_letter_ids, target_queue_name=target_queue_name
            )
        )

    def redrive_matching(
        self,
        *,
        target_queue_name: str | None = None,
        after_dead_letter_id: int | None = None,
        qty: int = 1000,
        **matching: Unpack[DeadLetterFilter],
    ) -> list[Redriven]:
        """Redrive the next dead letters that match a filter, as `redrive` does.

        Skips dead letters that another transaction is moving. In a loop, set `until` or limit the number of calls: a
        message that fails again immediately is dead-lettered again, and the loop would not terminate.

        Args:
            target_queue_name: As for `redrive`.
            after_dead_letter_id: Only dead letters with a higher id; None: start at the first.
            qty: The most to move, 1 or more.
            matching: As for `browse`.

        Returns:
            The dead letters moved, lowest `dead_letter_id` first; pass the last as `after_dead_letter_id` of the next
            call.

        Raises:
            QueueNotFoundError, GroupNotFoundError, LogNotFoundError: As for `redrive`.
            ArgumentError, PayloadError: As for `browse`.

        Source: `sluice.redrive`.
        """
        return self._runner.run(
            calls.dead_letters.redrive_matching(
                *self._name,
                target_queue_name=target_queue_name,
                after_dead_letter_id=after_dead_letter_id,
                qty=qty,
                **matching,
            )
        )

    def purge(
        self,
        *,
        older_than: timedelta | None = None,
        dead_letter_ids: Sequence[int] | None = None,
        qty: int = 10000,
    ) -> int:
        """Delete dead letters by age, oldest first, or by id; call it, and commit, until it returns 0.

        Args:
            older_than: Minimum time since dead-lettering; 0 selects all.
            dead_letter_ids: Ids of the dead letters. Give either this or `older_than`.
            qty: The most to delete, 1 or more.

        Returns:
            The number of deleted dead letters.

        Raises:
            ArgumentError: Neither or both selections are given, or `qty` is out of range. Nothing was deleted.

        Source: `sluice.purge_dead_letters`.
        """
        return self._runner.run(
            calls.dead_letters.purge(
                *self._name, older_than=older_than, dead_letter_ids=dead_letter_ids, qty=qty
            )
        )
