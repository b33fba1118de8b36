"""Pipeline from one source to its handlers: claims, runs and settles messages.

The simplest version is a loop:

    while not stopped:
        for delivery in await source.claim(1, lease_s):
            outcome = await handler(delivery.payload)
            await source.settle({delivery: Settlement(outcome)})

This is slow, and a handler that runs longer than the lease loses it. A lane runs these steps concurrently, each in its
own task, with messages passed from one to the next:

    claim ──► waiting ──► begin ──► running ──► settle
                  └─────── heartbeat ──────────────┘

- *Claim* fills the free slots, and those expected to be free when the next claim returns (`Track.capacity`). It waits
  when the source is empty (see `Source.announces`), and stops first.
- *Begin* starts waiting messages when a slot is free and its handler has a turn (`FairShare`). Messages with expired
  leases, as after a suspended process, are released instead. `source.begin` records attempts, so that a message that
  kills its process is dead-lettered after its last attempt.
- Messages with the same ordering key, and those that may have killed their process, are serialized (`Keys`): the next
  one starts when the previous one is settled.
- *Running* is one task per call (`Executor.handle`). It always ends with one of the four outcomes.
- *Settle* applies outcomes at the source, batching all that gathered during the previous call (`Settler`).
- *Heartbeat* renews all leases after a third of their duration. When a claim is lost, or expires without a response, a
  waiting message is dropped, an `async def` is cancelled, a process is killed, and a thread's context has `lost` set.

No step blocks the others while it waits for the server, and failed calls are retried with back-off (`Backoff`).
`stop` stops claiming, releases waiting messages and drains running ones; `stop(now=True)` cancels those too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pgsluice.backoff import Backoff, async_pause
from pgsluice.outcome import Reject, Release
from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.claim.sources import Feed
from pgsluice.worker.engine.delivery import LOST, Delivery, Failure, Settlement
from pgsluice.worker.engine.flow.heartbeat import Heartbeat
from pgsluice.worker.engine.flow.keys import Keys
from pgsluice.worker.engine.flow.nudge import Nudge
from pgsluice.worker.engine.flow.shared import Shared
from pgsluice.worker.engine.flow.status import HandlerStatus, RunningCall, SourceStatus
from pgsluice.worker.engine.flow.track import Run, Track
from pgsluice.worker.engine.settle.failure_log import Origin
from pgsluice.worker.engine.settle.settlement import settlement_of_error
from pgsluice.worker.engine.settle.settling import Settler
from pgsluice.worker.handlers.handler import Execution

_CLAIM_MAX = 1_000
_UNSETTLED_MAX = 2_000
# Iterations of the event loop from a claim to the calls of its messages; preparing the next claim takes 0.3 ms.
_STEPS_TO_START = 2
# Timeouts of `stop(now=True)`: for cancelled calls, then for pending settlements.
_NOW_S = 2.0
# How long a stopping lane waits for threads that exceeded their timeout.
_HUNG_S = 1.0
# A suspect message that has run this long no longer blocks the next one.
_SUSPECT_S = 3.0

_EXPIRED = (
    'lease expired source="%s" message_id=%d reason="the handler still runs; another worker may have claimed the '
    'message"'
)
_CANCELLED = (
    'message cancelled source="%s" message_id=%d reason="it is no longer in the queue; if its lease had expired, '
    'another worker may have settled it"'
)

_KILLER = Failure("process died", "too many attempts, the last ones never settled")
_KILLED = Settlement(Reject(_KILLER.message), _KILLER, "dead")


class Lane:
    """One source and its handlers."""

    def __init__(self, feed: Feed, shared: Shared) -> None:
        """Prepare a lane, in the running event loop.

        Args:
            feed: The source and its handlers.
            shared: Parts and options that all lanes of the worker share.
        """
        source, complaints = feed.source, shared.complaints
        self._source = source
        self._executor = shared.executor
        self._turns = shared.turns
        self._complaints = complaints
        self._failures = shared.failures
        self._idle_s = shared.idle_s
        self._lease_s = min(spec.lease_s for spec in feed.specs)
        self._startable = asyncio.Event()
        self._changed = asyncio.Event()  # there may be room for a claim, or a stop can finish
        self._tracks = [
            Track(spec, shared.turns, self._startable, self._changed, shared.prefetch)
            for spec in feed.specs
        ]
        self._track_of = {track.spec.name: track for track in self._tracks}
        self._spec_of = feed.spec_of
        self._keys = Keys()
        self._beginning: list[Delivery] = []
        self._owners: dict[Delivery, Track] = {}
        self._settler = Settler(source, complaints, self._on_settled)
        self._backoff = Backoff(source.name, complaints.log)
        self._heartbeat = Heartbeat(source, self._lease_s, complaints, self._claimed, self._lose)
        self._nudge = Nudge()  # poll the source, whatever it reports
        self._stopping = asyncio.Event()
        self._is_now = False
        self._claiming: asyncio.Task[None] | None = None
        self.active_s = time.monotonic()
        self.empty_s: float | None = None

    # Status and stop -------------------------------------------------------------------------------------------------

    @property
    def source(self) -> Source:
        """Its source of messages."""
        return self._source

    @property
    def is_holding(self) -> bool:
        """True if it has messages in any state."""
        return bool(
            self._beginning
            or self._settler.backlog
            or any(track.waiting or track.busy for track in self._tracks)
        )

    @property
    def stalled(self) -> list[str]:
        """Handlers all of whose threads hang."""
        return [track.spec.name for track in self._tracks if track.is_stalled]

    def check_hung(self) -> None:
        """Recheck for hung threads: a stopping lane does not wait for them."""
        self._changed.set()

    def status(self) -> tuple[SourceStatus, list[HandlerStatus]]:
        """Return the status of the source and its handlers."""
        source = SourceStatus.of(self._source.name, self._backoff)
        return source, [track.status() for track in self._tracks]

    def running_calls(self) -> list[RunningCall]:
        """Return the messages that its handlers process now."""
        return [call for track in self._tracks for call in track.running_calls()]

    def stop(self, *, now: bool = False) -> None:
        """Stop claiming, release unstarted messages, drain running ones; with `now` cancel those too."""
        self._stopping.set()
        self._settler.stop()
        self._nudge.set()
        for event in (self._changed, self._startable):
            event.set()
        self._release_waiting()
        if now and not self._is_now:
            self._is_now = True
            if self._claiming is not None:
                self._claiming.cancel()
            for run in self._runs():
                run.cancel()

    def leave(self) -> None:
        """Give up the shares of its handlers, after `run`."""
        for track in self._tracks:
            track.leave()

    async def run(self) -> None:
        """Claim, run and settle until `stop`."""
        helpers = [
            asyncio.create_task(self._begin_all(), name=f"{self._source.name}: start"),
            asyncio.create_task(self._heartbeat.run(), name=f"{self._source.name}: heartbeat"),
            asyncio.create_task(self._settler.run(), name=f"{self._source.name}: settle"),
        ]
        self._claiming = asyncio.create_task(self._claim_all(), name=f"{self._source.name}: claim")
        ending = asyncio.create_task(self._end())
        try:
            done, _ = await asyncio.wait([ending, *helpers], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in [*helpers, self._claiming, ending]:
                task.cancel()
            await asyncio.gather(*helpers, self._claiming, ending, return_exceptions=True)
            self._leave_hung()
            for delivery, settlement in self._settler.waiting.items():
                if (track := self._owners.get(delivery)) is not None:
                    self._report(track, delivery, settlement.failure, "unsettled")

    def _runs(self) -> list[Run]:
        return [run for track in self._tracks for run in track.runs]

    def _leave_hung(self) -> None:
        for run in self._runs():
            if run.is_hung:
                run.cancel()

    # Claim -----------------------------------------------------------------------------------------------------------

    async def _claim_all(self) -> None:
        while not self._stopping.is_set():
            capacity = self._capacity()
            if capacity == 0:
                await self._changed.wait()
                self._changed.clear()
                continue
            self._nudge.clear()
            await self._heartbeat.catch_up()
            began_s = time.monotonic()
            try:
                deliveries = await self._source.claim(capacity, self._lease_s)
            except Exception as error:  # noqa: BLE001 - also permanent errors, until an operator fixes the cause
                await async_pause(self._stopping, self._backoff.failed(error, "claim"))
                continue
            self._backoff.succeeded()
            if deliveries:
                self._arrive(deliveries)
                for _ in range(_STEPS_TO_START):
                    await asyncio.sleep(0)
            elif not self._source.has_more:
                self.empty_s = began_s
            is_empty = not (deliveries or self._source.has_more)
            is_empty |= len(deliveries) < capacity and self._source.announces
            if is_empty and not self._stopping.is_set():
                await self._wait()

    def _capacity(self) -> int:
        if self._settler.backlog >= _UNSETTLED_MAX:
            return 0
        return min(_CLAIM_MAX, sum(track.capacity(self._lease_s) for track in self._tracks))

    def _arrive(self, deliveries: list[Delivery]) -> None:
        self.active_s = time.monotonic()
        if self._stopping.is_set():
            for delivery in deliveries:
                self._settler.add(delivery, Settlement(Release()))
            return
        for delivery in deliveries:
            track = self._track_of[self._spec_of(delivery).name]
            self._owners[delivery] = track
            if self._keys.enter(delivery):
                track.arrive(delivery)
        self._turns.deal()

    async def _wait(self) -> None:
        """Wait until the source may have a message, or this lane needs to poll."""
        try:
            await self._nudge.unless_set(self._source.wait(self._idle_s))
        except Exception as error:  # noqa: BLE001 - as for a claim
            await async_pause(self._stopping, self._backoff.failed(error, "wait"))

    # Begin -----------------------------------------------------------------------------------------------------------

    async def _begin_all(self) -> None:
        while True:
            await self._startable.wait()
            self._startable.clear()
            for track in self._tracks:
                if track.granted:
                    await self._begin(track)

    async def _begin(self, track: Track) -> None:
        calls, taken = track.take()
        fresh = self._beginning = self._unexpired(taken)
        try:
            begun = await self._source.begin(fresh) if fresh else []
        except Exception as error:  # noqa: BLE001 - as for a claim
            await async_pause(self._stopping, self._backoff.failed(error, "start messages"))
            track.waiting.extendleft(reversed([each for each in fresh if each in self._owners]))
            begun = []
            if self._stopping.is_set():
                self._release_waiting()
        else:
            for delivery in set(fresh).difference(begun):
                if delivery.is_dead:
                    self._on_settled({delivery: _KILLED})
                elif delivery.is_locked:
                    self._settler.add(delivery, Settlement(Release()))
                else:
                    self._forget(delivery)
            begun = self._unexpired([each for each in begun if each in self._owners])
        self._beginning = []
        for position in range(0, len(begun), track.size):
            self._start(track, begun[position : position + track.size])
            calls -= 1
        for _ in range(calls):  # slots of messages that did not start
            self._free(track)
        self._changed.set()  # fewer messages wait, and other slots may be free
        self._turns.deal()

    def _unexpired(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Return deliveries with valid leases; release the others, in case no other worker has claimed them."""
        now_s = time.monotonic()
        if all(delivery.lease_end_s > now_s for delivery in deliveries):
            return deliveries
        fresh = []
        for delivery in deliveries:
            if delivery.lease_end_s > now_s:
                fresh.append(delivery)
            else:
                self._settler.add(delivery, Settlement(Release()))
        return fresh

    def _release_waiting(self) -> None:
        """Release all waiting messages in one call."""
        waiting = [*self._keys.behind()]
        for track in self._tracks:
            waiting += track.waiting
            track.waiting.clear()
        for delivery in waiting:
            self._settler.add(delivery, Settlement(Release()))
            self._keys.leave(delivery)

    # Run -------------------------------------------------------------------------------------------------------------

    def _start(self, track: Track, deliveries: list[Delivery]) -> None:
        contexts = [self._executor.context(track.spec, each, self._source) for each in deliveries]
        run = Run(track, contexts)
        track.runs.add(run)
        for delivery in deliveries:
            if delivery.is_suspect:
                loop = asyncio.get_running_loop()
                loop.call_later(_SUSPECT_S, self._next_in_line, delivery)
        run.task = asyncio.create_task(self._run(run))

    async def _run(self, run: Run) -> None:
        spec = run.track.spec
        settlements: Sequence[Settlement]
        run.is_begun, run.began_s = True, time.monotonic()
        try:
            if run.is_cancelled:
                raise asyncio.CancelledError  # noqa: TRY301 - cancelled before the task started
            if spec.batch is None:
                settlements = [await self._executor.handle(spec, run.contexts[0])]
            else:
                settlements = await self._executor.handle_batch(spec, run.contexts)
        except asyncio.CancelledError:
            # The outcome of a thread still running is unknown: its message is redelivered after lease expiry.
            is_ended = self._is_now and spec.execution is not Execution.THREAD
            settlements = [Settlement(Release()) if is_ended else LOST] * len(run.contexts)
        except BaseException as error:  # noqa: BLE001 - a bug of the worker; the message must still be settled
            settlements = [settlement_of_error(spec, error)] * len(run.contexts)
        run.track.lasted(time.monotonic() - run.began_s)
        for context, settlement in zip(run.contexts, settlements, strict=True):
            self._settle(run, context.delivery, settlement)
        run.track.runs.discard(run)
        self._free(run.track)
        self._turns.deal()

    def _settle(self, run: Run, delivery: Delivery, settlement: Settlement) -> None:
        track = run.track
        if settlement.failure is not None:
            track.last_error = settlement.failure.error_type
        if delivery in run.lost:
            self._report(track, delivery, settlement.failure, "stale")
            return  # already counted as lost
        if settlement.result is not None:
            self._report(track, delivery, settlement.failure, "acknowledged")
            self._source.forget(delivery)
            self._on_settled({delivery: replace(settlement, failure=None)})
        else:
            self._settler.add(delivery, settlement)

    def _report(
        self,
        track: Track,
        delivery: Delivery,
        failure: Failure | None,
        result: str,
        next_retry_s: float | None = None,
    ) -> None:
        """Log a handler failure, if any."""
        if failure is not None:
            self._failures.report(
                Origin.of(track.spec),
                delivery.message_id,
                delivery.attempt,
                failure,
                {"lost": "stale", "done": "acknowledged"}.get(result, result),
                next_retry_s=next_retry_s,
                payload=delivery.payload,
            )

    def _free(self, track: Track) -> None:
        track.active -= 1
        self._turns.release()
        track.share.changed()

    def _on_settled(self, settled: Mapping[Delivery, Settlement]) -> None:
        self.active_s = time.monotonic()
        for delivery, settlement in settled.items():
            track, result = self._owners.pop(delivery, None), settlement.result
            if track is not None and result is not None:
                failure = settlement.failure
                track.count(result, failure.error_type if failure and result != "done" else None)
                self._report(track, delivery, failure, result, settlement.next_retry_s)
            if delivery.key is not None or delivery.is_suspect:
                self._next_in_line(delivery)
            if result in ("retry", "released"):
                self._nudge.set()  # the source must poll for the new due time
        self._changed.set()

    def _next_in_line(self, delivery: Delivery) -> None:
        following = self._keys.leave(delivery)
        if following is None:
            self._nudge.set()  # the server may have the next message of the key, and sends no notification of it
        elif not self._stopping.is_set() and (track := self._owners.get(following)) is not None:
            track.arrive(following)
            self._turns.deal()

    # Heartbeat -------------------------------------------------------------------------------------------------------

    def _claimed(self) -> Iterable[Delivery]:
        for track in self._tracks:
            yield from track.waiting
            for run in track.runs:
                for context in run.contexts:
                    if not context.is_held and context.delivery not in run.lost:
                        yield context.delivery
        yield from self._beginning
        yield from self._keys.behind()
        yield from self._settler.waiting

    def _lose(self, delivery: Delivery) -> None:
        """Drop a message whose claim is lost."""
        track = self._owners.get(delivery)
        if track is None:
            return  # it is being settled
        for run in track.runs:
            if any(context.delivery is delivery for context in run.contexts):
                self._lose_run(run, delivery)
                return
        if delivery in track.waiting:
            track.waiting.remove(delivery)
        elif delivery in self._settler.waiting:
            return  # the pending call reports it
        self._forget(delivery)

    def _lose_run(self, run: Run, delivery: Delivery) -> None:
        for context in run.contexts:
            if context.delivery is delivery:
                if context.is_held:
                    return  # the heartbeat skipped it because its own transaction holds it
                context.lost.set()
        run.lost.add(delivery)
        self._forget(delivery)
        self._complaints.log(
            logging.WARNING,
            _CANCELLED if delivery.is_gone else _EXPIRED,
            *(self._source.name, delivery.message_id),
        )
        if len(run.lost) < len(run.contexts) or run.track.spec.execution is Execution.THREAD:
            return
        run.cancel()

    def _forget(self, delivery: Delivery) -> None:
        """Count a message as lost and drop it."""
        self._source.forget(delivery)
        self._on_settled({delivery: LOST})

    # Stop ------------------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        await self._stopping.wait()
        assert self._claiming is not None  # noqa: S101 - run() sets it first
        await asyncio.wait([self._claiming])
        if not self._claiming.cancelled():
            self._claiming.result()
        while any(track.busy for track in self._tracks):
            if self._is_now:
                break
            self._changed.clear()
            await self._changed.wait()
        if self._is_now:
            tasks = [run.task for run in self._runs() if run.task]
            if tasks:
                await asyncio.wait(tasks, timeout=_NOW_S)
            await asyncio.wait([asyncio.create_task(self._settler.drained())], timeout=_NOW_S)
            return
        hung = [run.task for run in self._runs() if run.task]
        if hung:  # some return as soon as their transaction is cut off
            await asyncio.wait(hung, timeout=_HUNG_S)
            self._leave_hung()
            await asyncio.wait(hung)
        self._release_waiting()
        await self._settler.drained()
