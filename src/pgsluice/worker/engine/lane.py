"""Takes messages from one source to its handlers, and settles them.

The simplest version is a loop:

    while not stopped:
        for delivery in await source.claim(1, lease_s):
            outcome = await handler(delivery.payload)
            await source.settle({delivery: Settlement(outcome)})

It is slow, and a handler that runs for longer than the lease loses it. A lane does the same steps at once, each in a
task of its own, with the messages handed from one to the next:

    claim ──► waiting ──► begin ──► running ──► settle
                  └─────── heartbeat ──────────────┘

- *Claim* asks for as many as there are free slots, and for those that will be free until the next claim comes back
  (`Track.room`). It waits when the source has none, and it is the first to stop.
- *Begin* takes what waits when a slot is free and it is this handler's turn (`Turns`). It starts nothing whose lease is
  over: after a pause of the process that is given back instead. `source.begin` notes starts, so that a message that
  kills its process does not do so for ever.
- Messages of one key, and those that may have killed their process, stand in line (`Keys`): the next one is not started
  before it is settled what became of the one before.
- *Running* is a task for each call (`Executor.handle`). It ends with one of the four outcomes, whatever happens.
- *Settle* says them to the source, as many at once as have gathered while the last call was under way (`Settler`).
- *Heartbeat* extends the leases of all of these when a third is over. What is lost, also as no server answers to its
  end, is dropped: what waits is forgotten, an `async def` is cancelled, a process is killed, a thread is told.

No step waits for the server without the others going on, and every failure of a call is waited out (`Backoff`).
`stop` ends claiming, gives back uncounted what waits, and lets end what runs; `stop(now=True)` cancels that too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from pgsluice.backoff import Backoff, Complaints, async_pause, described
from pgsluice.outcome import Reject, Release
from pgsluice.worker.engine.delivery import Delivery, Failure
from pgsluice.worker.engine.executor import Executor
from pgsluice.worker.engine.failure_log import FailureLog, Origin
from pgsluice.worker.engine.heartbeat import Heartbeat
from pgsluice.worker.engine.keys import Keys
from pgsluice.worker.engine.settlement import LOST, Settlement, settlement_of_error
from pgsluice.worker.engine.settling import Settler
from pgsluice.worker.engine.source import Source
from pgsluice.worker.engine.status import HandlerStatus, SourceStatus
from pgsluice.worker.engine.track import Run, Track
from pgsluice.worker.engine.turns import Turns
from pgsluice.worker.handlers.handler import Execution, HandlerSpec

_CLAIM_MAX = 1_000
_UNSETTLED_MAX = 2_000
IDLE_S = 600.0
# How long `stop(now=True)` waits for those that were cancelled, and then for what is to be said.
_NOW_S = 2.0
# How long a lane that stops waits for threads that outlived their timeout.
_HUNG_S = 1.0
# What may have killed its process, and has run for so long, holds up others that may have no longer.
_SUSPECT_S = 3.0

_KILLER = Failure("process died", "too many attempts, the last ones without an answer")
_KILLED = Settlement(Reject(_KILLER.message), _KILLER, "dead")


class Lane:
    """One source and its handlers."""

    def __init__(
        self,
        source: Source,
        specs: Sequence[HandlerSpec],
        spec_of: Callable[[Delivery], HandlerSpec],
        executor: Executor,
        turns: Turns,
        complaints: Complaints,
        failures: FailureLog,
        *,
        prefetch: int | None = None,
        idle_s: float = IDLE_S,
    ) -> None:
        """Prepare it, in the running event loop.

        Args:
            source: Where messages come from.
            specs: The handlers.
            spec_of: Which of them a message is for.
            executor: Calls them.
            turns: Says when.
            complaints: Where failures are said.
            failures: Logs what handlers raise.
            prefetch: See `Track`.
            idle_s: Seconds after which a source without messages is asked again, whatever it says.
        """
        self._source = source
        self._executor = executor
        self._turns = turns
        self._complaints = complaints
        self._failures = failures
        self._idle_s = idle_s
        self._lease_s = min(spec.lease_s for spec in specs)
        self._startable = asyncio.Event()
        self._tracks = [Track(spec, turns, self._startable, prefetch) for spec in specs]
        self._track_of = {track.spec.name: track for track in self._tracks}
        self._spec_of = spec_of
        self._keys = Keys()
        self._beginning: list[Delivery] = []
        self._owners: dict[Delivery, Track] = {}
        self._settler = Settler(source, complaints, self._on_settled)
        self._backoff = Backoff(source.name, complaints.say)
        self._heartbeat = Heartbeat(source, self._lease_s, complaints, self._claimed, self._lose)
        self._changed = asyncio.Event()  # there may be room for a claim, or nothing to wait for
        self._nudge = asyncio.Event()  # there may be something to claim, whatever the source says
        self._stopping = asyncio.Event()
        self._is_now = False
        self._claiming: asyncio.Task[None] | None = None
        self.active_s = time.monotonic()
        self.empty_s: float | None = None

    # What others see and say -----------------------------------------------------------------------------------------

    @property
    def source(self) -> Source:
        """Where its messages come from."""
        return self._source

    @property
    def is_holding(self) -> bool:
        """Whether it has messages in any state."""
        return bool(
            self._beginning
            or self._settler.backlog
            or any(track.waiting or track.busy for track in self._tracks)
        )

    @property
    def stalled(self) -> list[str]:
        """The handlers all of whose threads hang."""
        return [track.spec.name for track in self._tracks if track.is_stalled]

    def look(self) -> None:
        """Find that a thread hangs: a lane that stops does not wait for it."""
        self._changed.set()

    def status(self) -> tuple[SourceStatus, list[HandlerStatus]]:
        """How it fares."""
        error = self._backoff.error
        source = SourceStatus(
            name=self._source.name,
            is_reachable=error is None,
            last_error=None if error is None else described(error),
        )
        return source, [track.status() for track in self._tracks]

    def stop(self, *, now: bool = False) -> None:
        """End: claim no more, give back what was not started, let end what runs; or with `now` cancel that too."""
        self._stopping.set()
        self._settler.stop()
        for event in (self._changed, self._nudge, self._startable):
            event.set()
        self._give_back()
        if now and not self._is_now:
            self._is_now = True
            if self._claiming is not None:
                self._claiming.cancel()
            for run in self._runs():
                run.cancel()

    async def run(self) -> None:
        """Work until `stop`."""
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
            room = self._room()
            if room == 0:
                await self._changed.wait()
                self._changed.clear()
                continue
            self._nudge.clear()
            await self._heartbeat.catch_up()
            began_s = time.monotonic()
            try:
                deliveries = await self._source.claim(room, self._lease_s)
            except Exception as error:  # noqa: BLE001 - what does not pass by itself is mended by somebody
                await async_pause(self._stopping, self._backoff.failed(error, "claim"))
                continue
            self._backoff.succeeded()
            if deliveries:
                self._arrive(deliveries)
            elif not self._stopping.is_set():
                self.empty_s = began_s
                await self._wait()

    def _room(self) -> int:
        if self._settler.backlog >= _UNSETTLED_MAX:
            return 0
        return min(_CLAIM_MAX, sum(track.room(self._lease_s) for track in self._tracks))

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
        """Wait until the source may have something, or this lane has a reason to look."""
        waits = [
            asyncio.create_task(self._source.wait(self._idle_s)),
            asyncio.create_task(self._nudge.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if waits[0].done():
                waits[0].result()
        except Exception as error:  # noqa: BLE001 - as for a claim
            await async_pause(self._stopping, self._backoff.failed(error, "wait"))
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

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
        fresh = self._beginning = self._unlapsed(taken)
        try:
            begun = await self._source.begin(fresh) if fresh else []
        except Exception as error:  # noqa: BLE001 - as for a claim
            await async_pause(self._stopping, self._backoff.failed(error, "start messages"))
            track.waiting.extendleft(reversed([each for each in fresh if each in self._owners]))
            begun = []
            if self._stopping.is_set():
                self._give_back()
        else:
            for delivery in set(fresh).difference(begun):
                if delivery.is_dead:
                    self._on_settled({delivery: _KILLED})
                elif delivery.is_locked:
                    self._settler.add(delivery, Settlement(Release()))
                else:
                    self._forget(delivery)
            begun = self._unlapsed([each for each in begun if each in self._owners])
        self._beginning = []
        for position in range(0, len(begun), track.size):
            self._start(track, begun[position : position + track.size])
            calls -= 1
        for _ in range(calls):  # of fewer messages than were there
            self._free(track)
        self._changed.set()  # fewer wait, and other slots may be free
        self._turns.deal()

    def _unlapsed(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Those whose lease lasts; the others are given back, in case that nobody else has them yet."""
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

    def _give_back(self) -> None:
        """Hand back all that wait, in one call."""
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
        began_s = time.monotonic()
        spec = run.track.spec
        settlements: Sequence[Settlement]
        run.is_begun = True
        try:
            if run.is_cancelled:
                raise asyncio.CancelledError  # noqa: TRY301 - as if it had come later
            if spec.batch is None:
                settlements = [await self._executor.handle(spec, run.contexts[0])]
            else:
                settlements = await self._executor.handle_batch(spec, run.contexts)
        except asyncio.CancelledError:
            # Of a thread that goes on nothing is known: its message comes again when its claim is over.
            is_ended = self._is_now and spec.execution is not Execution.THREAD
            settlements = [Settlement(Release()) if is_ended else LOST] * len(run.contexts)
        except BaseException as error:  # noqa: BLE001 - the worker's own fault, but the message needs its end
            settlements = [settlement_of_error(spec, error)] * len(run.contexts)
        run.track.lasted(time.monotonic() - began_s)
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
            return  # counted when it was lost
        if settlement.result is not None:
            self._report(track, delivery, settlement.failure, "acknowledged")
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
        """Log a failure of a handler, if it is one."""
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
        self._turns.give_back()
        self._changed.set()

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
                self._nudge.set()  # the source is to look anew when something is due
        self._changed.set()

    def _next_in_line(self, delivery: Delivery) -> None:
        following = self._keys.leave(delivery)
        if following is None:
            self._nudge.set()  # the server may have the next, and nobody else says so
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
        """Let go of a message whose claim is over."""
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
            return  # the call will tell
        self._forget(delivery)

    def _lose_run(self, run: Run, delivery: Delivery) -> None:
        for context in run.contexts:
            if context.delivery is delivery:
                if context.is_held:
                    return  # what the heartbeat missed is its own acknowledgement
                context.lost.set()
        run.lost.add(delivery)
        self._forget(delivery)
        self._complaints.say(
            logging.WARNING,
            "%s: the claim of message %d is over while its handler runs: another worker may have begun",
            *(self._source.name, delivery.message_id),
        )
        if len(run.lost) < len(run.contexts) or run.track.spec.execution is Execution.THREAD:
            return
        run.cancel()

    def _forget(self, delivery: Delivery) -> None:
        """Count a message as lost, and say no more of it."""
        self._on_settled({delivery: LOST})

    # End -------------------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        await self._stopping.wait()
        assert self._claiming is not None  # noqa: S101 - there since the start
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
        self._give_back()
        await self._settler.drained()
