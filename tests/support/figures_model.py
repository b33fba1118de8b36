"""Expected figures, findings and alerts, computed from the rows of tables and the actions of the driver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from support import rows, value
from support.figures_world import CONSUMER, GROUP, LOG, QUEUE, SCHEDULE, WORKER, World, seconds

MAX_LAG_S, IDLE_PERIOD_S = 3.0, 60.0  # of the ticker, by default
UNSURE_S = 8.0  # a comparison takes some seconds


def is_over(age_s: float, limit_s: float) -> bool | None:
    """Return whether an age is over a limit; None: too close to tell."""
    return None if abs(age_s - limit_s) < UNSURE_S else age_s > limit_s


def both(*conditions: bool | None) -> bool | None:
    """Return whether all conditions hold; None: not known."""
    return False if False in conditions else None if None in conditions else True


@dataclass
class Truth:
    """The state of the database.

    Attributes:
        states: Messages of the queue by state.
        oldest_s: Time since the oldest visible message became visible, or None.
        expired: Visible messages whose lease expired.
        dead: Dead letters of the queue.
        lag: Ages of the events that the consumer has not finished, by transaction id.
        unclaimed: Ages of the events that the share group has not claimed.
        group_dead: Dead letters of the share group.
        outstanding: Events that it has claimed and not settled.
        leased: Those among them whose lease has not ended.
        tick_s: Age of the newest tick.
        unticked_s: Age of the oldest event that no tick covers; None: there is none.
        is_tick_read: True if the consumer has read up to the newest tick.
        failures: Maintenance steps that fail.
        late_s: Time since the schedule was due; 0 if it is not.
        is_paused: True if the queue is paused.
        paused_s: Time since then.
        reported_s: Time since the report of the worker, if it has reported within a day.
        is_session_there: True if the session of the worker is there.
    """

    now: datetime
    messages: list[tuple[Any, ...]]
    states: dict[str, int]
    oldest_s: float | None
    expired: int
    dead: int
    dead_lately: int
    lag: list[float]
    idle_s: float
    unclaimed: list[float]
    group_dead: int
    group_dead_lately: int
    outstanding: int
    leased: int
    tick_s: float
    unticked_s: float | None
    is_tick_read: bool
    failures: list[str]
    late_s: float
    is_paused: bool
    paused_s: float
    reported_s: float | None
    is_session_there: bool
    last_read_s: float | None
    sent: int
    finished: int
    is_maintained: bool

    @property
    def length(self) -> int:
        """Number of messages in the queue."""
        return sum(self.states.values())

    @property
    def is_worker_live(self) -> bool | None:
        """True if the worker is live; None: too close to tell."""
        if self.reported_s is None or not self.is_session_there:
            return False
        silent = is_over(self.reported_s, 90)
        return None if silent is None else not silent


def truth_of(world: World) -> Truth:
    """Read the tables."""
    session, now = world.connection, world.now()
    dead_events = dict(
        rows(
            session,
            "select msg_id, dead_at from sluice.dead_letter where queue_name = %s and consumer_name = %s",
            LOG,
            GROUP,
        )
    )
    for ev_id in dead_events:
        world.outstanding.pop(ev_id, None)
    dead_at = [
        at
        for (at,) in rows(
            session, "select dead_at from sluice.dead_letter where consumer_name is null"
        )
    ]
    hour = now - timedelta(hours=1)
    until = [each for each in world.outstanding.values() if each is not None]
    return Truth(
        now=now,
        dead=len(dead_at),
        dead_lately=sum(at > hour for at in dead_at),
        group_dead=len(dead_events),
        group_dead_lately=sum(at > hour for at in dead_events.values()),
        outstanding=len(world.outstanding),
        leased=sum(each > now + timedelta(seconds=UNSURE_S) for each in until),
        failures=[name for (name,) in rows(session, "select task from sluice.failure")],
        late_s=seconds(
            value(session, "select due_at from sluice.schedule where name = %s and paused_at is null", SCHEDULE), now
        ),
        finished=world.finished,
        sent=value(session, f"select case when is_called then last_value else 0 end from pgmq.q_{QUEUE}_msg_id_seq"),
        is_maintained=world.is_maintained,
        **_queue(world, now),
        **_log(world, now),
        **_worker(world, now),
    )  # fmt: skip


def _queue(world: World, now: datetime) -> dict[str, Any]:
    messages = rows(
        world.connection,
        f"select msg_id, vt, enqueued_at, read_ct, last_read_at from pgmq.q_{QUEUE} order by msg_id",
    )
    states = dict.fromkeys(("visible", "in flight", "retrying", "delayed"), 0)
    for _, vt, _, read_ct, last_read_at in messages:
        if vt <= now:
            states["visible"] += 1
        elif read_ct == 0:
            states["delayed"] += 1
        else:
            states["in flight" if last_read_at is not None else "retrying"] += 1
    ready = [max(vt, enqueued_at) for _, vt, enqueued_at, _, _ in messages if vt <= now]
    archived = rows(
        world.connection, f"select last_read_at from pgmq.a_{QUEUE} order by msg_id desc limit 100"
    )
    reads = [
        at
        for at in (*(each[4] for each in messages), *(at for (at,) in archived))
        if at is not None
    ]
    paused_at = world.work.queue_options(QUEUE).paused_at
    return {
        "messages": messages,
        "states": states,
        "oldest_s": seconds(min(ready), now) if ready else None,
        "expired": sum(
            vt <= now and vt > sent and read is not None for _, vt, sent, _, read in messages
        ),
        "is_paused": paused_at is not None,
        "paused_s": seconds(paused_at, now),
        "last_read_s": seconds(max(reads), now) if reads else None,
    }


def _log(world: World, now: datetime) -> dict[str, Any]:
    session = world.connection
    events = rows(
        session,
        "select e.ev_id, e.ev_txid::text, e.ev_time, e.ev_owner, "
        "  pg_visible_in_snapshot(e.ev_txid, (select tick_snapshot from pgq.tick order by tick_id desc limit 1)) "
        "from pgq.event_1 as e order by e.ev_txid",
    )
    unfinished = [e for e in events if (e[0], e[1]) not in world.consumed]
    unclaimed = [e for e in events if e[3] is None and e[0] not in world.group_claimed]
    unticked = [seconds(e[2], now) for e in events if not e[4]]
    (active,) = rows(
        session, "select sub_active from pgq.subscription as s join pgq.consumer as c on c.co_id = s.sub_consumer "
        "where c.co_name = %s", CONSUMER,
    )  # fmt: skip
    return {
        "lag": [seconds(e[2], now) for e in unfinished],
        "idle_s": seconds(active[0], now),
        "unclaimed": [seconds(e[2], now) for e in unclaimed],
        "tick_s": seconds(value(session, "select max(tick_time) from pgq.tick"), now),
        "unticked_s": max(unticked) if unticked else None,
        "is_tick_read": all(not e[4] for e in unfinished),
    }


def _worker(world: World, now: datetime) -> dict[str, Any]:
    found = rows(
        world.connection,
        "select r.reported_at, r.backend_pid in (select pid from pg_stat_activity) from sluice.process_report as r "
        "where r.process_id = %s and r.reported_at > clock_timestamp() - interval '1 day' order by r.report_id desc limit 1",
        WORKER,
    )
    return {
        "reported_s": seconds(found[0][0], now) if found else None,
        "is_session_there": bool(found and found[0][1]),
    }


def are_ticks_late(truth: Truth) -> bool | None:
    """Return whether no process ticks the log, as consumers see it."""
    waits = is_over(truth.unticked_s or 0, 3 * MAX_LAG_S + 10)
    if waits:
        return True
    silent = both(is_over(truth.tick_s, 2 * IDLE_PERIOD_S + 10), not truth.is_maintained)
    return None if waits is None or silent is None else silent


def findings_of(truth: Truth) -> dict[str, bool | None]:
    """Return for each check of doctor whether it finds something."""
    ready_s, read_s = truth.oldest_s or 0.0, truth.last_read_s
    held = [
        both(
            is_over(seconds(read, truth.now), 1800), is_over((vt - truth.now).total_seconds(), 1800)
        )
        for _, vt, _, _, read in truth.messages
        if read is not None
    ]
    live = truth.is_worker_live
    return {
        "ticks": both(is_over(truth.tick_s, 60), are_ticks_late(truth)),
        "failures": bool(truth.failures),
        "schedules": is_over(truth.late_s, 120),
        "consumers": (
            True
            if both(is_over(truth.idle_s, 26 * 3600), bool(truth.lag))
            else None  # of a share group, the events that are not settled count
            if truth.unclaimed or truth.outstanding or not truth.is_maintained
            else both(is_over(truth.idle_s, 26 * 3600), bool(truth.lag))
        ),
        "share_groups": both(
            bool(truth.unclaimed), truth.outstanding == 0, is_over(max(truth.unclaimed, default=0), 3600)
        ),
        "undrained_queues": both(
            is_over(ready_s, 3600),
            truth.states["retrying"] == 0,
            True if read_s is None else is_over(read_s, 3600),
            not truth.is_paused,
        ),
        "paused_queues": truth.is_paused and truth.states["visible"] > 0,
        "held_messages": True if True in held else None if None in held else False,
        "silent_workers": None if live is None else truth.reported_s is not None and not live,
        "dead_letters": max(truth.dead_lately, truth.group_dead_lately) >= 10,
        "maintenance": False,
        "poison_messages": False,
        "log_rows": False,
        "parked_keys": False,
        "pipelines": False,
    }  # fmt: skip


def alerts_of(truth: Truth) -> dict[str, bool | None]:
    """Return for each alert in alerts.sql whether it fires."""
    live = truth.is_worker_live
    return {
        "no maintenance": not truth.is_maintained,
        "maintenance fails": bool(truth.failures),
        "queue not drained": is_over(truth.oldest_s or 0, 300),
        "queue paused": both(truth.is_paused, is_over(truth.paused_s, 3600)),
        "worker silent": None if live is None else truth.reported_s is not None and not live,
        "dead letters": truth.dead > 0,
        "consumer lags": is_over(truth.lag[0] if truth.lag else 0, 900)
        if are_alike(truth.lag)
        else None,
        "log pinned": False,
        "consumer lost": False,
        "group lags": is_over(max(truth.unclaimed, default=0), 300),
        "schedule late": is_over(truth.late_s, 120),
        "pipeline stopped": False,
        "old transaction": False,
    }


def are_alike(lag: list[float]) -> bool:
    """Return whether the first event is about as old as the oldest: a retried one is later, and keeps its time."""
    return not lag or max(lag) - lag[0] < UNSURE_S
