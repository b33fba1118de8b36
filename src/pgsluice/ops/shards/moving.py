"""Move the messages of keys to their shards. Each step can be repeated after a crash.

1. Messages are taken out of their queue, into a table of the same database, in one transaction. Those in flight stay
   until they are settled or their lease expires.
2. Messages are appended to the queue of the other database, with a note of what was received, in one transaction.
3. The first database forgets what the other has noted. After a crash before that, the next run begins with the note.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pgsluice.client.calls import moving, pgmq
from pgsluice.client.calls.shards import checked
from pgsluice.ops.shards.opening import Shard
from pgsluice.ops.shards.queues import create_queue
from pgsluice.shards import Directory

# Messages per transaction, and per look at a queue.
_QTY = 500
_WINDOW_QTY = 5_000
_POLL_S = 0.2
_REPORT_EACH_S = 10.0


@dataclass(frozen=True)
class _Range:
    """Messages of a queue that may have to move, by msg_id.

    Attributes:
        since: The lowest; None: the first.
        before: The end; None: the last.
        homes: Shard of each key that moves.
    """

    source: Shard
    queue_name: str
    since: int | None
    before: int | None
    homes: Mapping[str, str]


class Movement:
    """Move messages until none is left of a key that has another shard in the new directory.

    Attributes:
        moved: Number of messages that have arrived.
    """

    def __init__(
        self,
        shards: Mapping[str, Shard],
        generation: int,
        directory: Directory,
        keys: Collection[str] | None,
        say: Callable[[str], None],
    ) -> None:
        """Prepare to move.

        Args:
            shards: All shards of the old and the new directory, connected.
            generation: The number of the new directory; a newer one stops this.
            directory: The new directory.
            keys: The keys that move; None: those that the shards have.
            say: Called with a line when messages stay in flight.
        """
        self._shards = shards
        self._generation = generation
        self._directory = directory
        self._keys = keys
        self._say = say
        self._queues: set[tuple[str, str]] = set()
        self.moved = 0

    def run(self) -> None:
        """Move all; return when nothing is left to move.

        Raises:
            SluiceError: A shard is down. Run it again.
        """
        reported_s = time.monotonic()
        ranges: Iterable[_Range] = self._ranges()
        is_whole = True
        while True:
            taken, left = self._take(ranges)
            self._deliver(left)
            if left:
                ranges, is_whole = left, False
                if time.monotonic() - reported_s >= _REPORT_EACH_S:
                    reported_s = time.monotonic()
                    self._report(left)
                time.sleep(_POLL_S)
            elif taken or not is_whole:
                # Again from the start: a message may have been released or sent meanwhile.
                ranges, is_whole = self._ranges(), True
            else:
                return

    def _ranges(self) -> Iterator[_Range]:
        for source in self._shards.values():
            for queue in source.runner.run(pgmq.list_queues()):
                yield from self._ranges_of(source, queue.queue_name)

    def _ranges_of(self, source: Shard, queue_name: str) -> Iterator[_Range]:
        if self._keys is not None:
            homes = self._homes(source, self._keys)
            if homes:
                yield _Range(source, queue_name, None, None, homes)
            return
        before: int | None = None
        while True:
            window = source.runner.run(moving.window(queue_name, before, _WINDOW_QTY))
            if window.first_msg_id is None:
                return
            if homes := self._homes(source, window.keys):
                yield _Range(source, queue_name, window.first_msg_id, before, homes)
            before = window.first_msg_id

    def _homes(self, source: Shard, keys: Iterable[str]) -> dict[str, str]:
        homes = {key: self._directory.home(key) for key in keys}
        return {key: home for key, home in homes.items() if home != source.name}

    def _take(self, ranges: Iterable[_Range]) -> tuple[int, list[_Range]]:
        """Take messages out of their queues; return their number, and the ranges of those that stay."""
        taken, left = 0, []
        for one in ranges:
            before, left_keys = one.before, set[str]()
            while True:
                call = moving.take(one.queue_name, one.since, before, one.homes, _QTY)
                found = one.source.runner.run(checked(call, one.source.name, self._generation))
                taken += found.qty
                left_keys.update(found.left_keys)
                if found.first_msg_id is None:
                    break
                before = found.first_msg_id
            if left_keys:
                left.append(replace(one, homes={key: one.homes[key] for key in left_keys}))
        return taken, left

    def _deliver(self, left: Iterable[_Range]) -> None:
        """Append taken messages to their shards, unless messages of their key stay, which they would overtake."""
        held = defaultdict[str, set[str]](set)
        for one in left:
            held[one.source.name].update(one.homes)
        for source in self._shards.values():
            for name in source.runner.run(moving.moving_shards()):
                while self._deliver_some(source, self._shards[name], held[source.name]):
                    pass

    def _deliver_some(self, source: Shard, target: Shard, held: Collection[str]) -> bool:
        """Deliver the next messages; return False if there are none."""
        with target.transaction():
            received = target.runner.run(moving.received(source.name))
            queues, messages = source.runner.run(moving.next_of(target.name, received, held, _QTY))
            if messages is None:
                return False
            for queue_name in queues:
                if (target.name, queue_name) not in self._queues:
                    create_queue(source, target, queue_name)
                    self._queues.add((target.name, queue_name))
            call = moving.receive(source.name, messages)
            self.moved += target.runner.run(checked(call, target.name, self._generation))
        return True

    def _report(self, left: list[_Range]) -> None:
        for one in left:
            keys = sorted(one.homes)
            named = ", ".join(map(repr, keys[:3])) + (", …" if len(keys) > 3 else "")
            self._say(
                f"shard {one.source.name}: messages of {named} in queue {one.queue_name!r} are in flight, or wait for "
                "others"
            )
