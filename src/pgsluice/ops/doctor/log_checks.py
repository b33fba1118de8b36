"""Checks of event logs, share groups, pipelines, schedules and maintenance."""

from __future__ import annotations

from collections.abc import Iterable

from pgsluice.client.calls import doctor_logs
from pgsluice.client.calls.doctor import Symptom
from pgsluice.ops.doctor.findings import Check
from pgsluice.ops.doctor.probe import Probe


def _ticks(probe: Probe) -> Iterable[Symptom]:
    yield from probe.fetch(doctor_logs.late_ticks(probe.thresholds.tick_s))
    yield from probe.fetch(doctor_logs.future_ticks(probe.thresholds.clock_s))


def _maintenance(probe: Probe) -> Iterable[Symptom]:
    leader = probe.fetch(doctor_logs.leader())
    by_whom = "no process leads maintenance" if leader is None else f"{leader} leads maintenance"
    for symptom in probe.fetch(doctor_logs.overdue_maintenance(probe.thresholds.overdue_s)):
        yield symptom._replace(what=f"{symptom.what}; {by_whom}")


CHECKS = (
    Check(
        "log_rows",
        "consumers or share groups stop, or skip events: rows of the log were changed by hand",
        "ticks, numbers, positions and claims of logs are complete",
        lambda probe: probe.fetch(doctor_logs.log_rows()),
    ),
    Check(
        "ticks",
        "consumers receive no events until the next tick",
        "logs are ticked",
        _ticks,
    ),
    Check(
        "maintenance",
        "without maintenance partitions are missing, schedules do not fire, and nothing is deleted after its retention",
        "maintenance is not overdue",
        _maintenance,
    ),
    Check(
        "failures",
        "the step is repeated, and its work is not done",
        "no maintenance step fails",
        lambda probe: probe.fetch(doctor_logs.failures()),
    ),
    Check(
        "schedules",
        "its messages are not sent in time; to drop a schedule ends it",
        "schedules fire in time",
        lambda probe: probe.fetch(doctor_logs.schedules(probe.thresholds.late_s)),
    ),
    Check(
        "captures",
        "changes of the table are missing in the log, and in all that reads it, or writes to the table fail",
        "captured tables have the triggers of their capture, and these fire",
        lambda probe: probe.fetch(doctor_logs.captures()),
    ),
    Check(
        "consumers",
        "a log keeps all events since its slowest consumer, until the disk is full; to unregister a consumer gives up "
        "what it has not read, and its retries",
        "every consumer reads its log",
        lambda probe: probe.fetch(
            doctor_logs.consumers(
                probe.thresholds.consumer_idle_s,
                probe.thresholds.pinned_bytes,
                probe.thresholds.unread_s,
            )
        ),
    ),
    Check(
        "share_groups",
        "events wait, and no consumer claims them; the log keeps them. To drop a group gives up its events and retries",
        "share groups are consumed",
        lambda probe: probe.fetch(doctor_logs.share_groups(probe.thresholds.undrained_s)),
    ),
    Check(
        "event_types",
        "events wait until a worker runs the handler of their type, and the log keeps them; or they were accepted "
        "without a handler",
        "event types of share groups have handlers that a live worker runs",
        lambda probe: probe.fetch(doctor_logs.event_types(probe.thresholds.undrained_s)),
    ),
    Check(
        "parked_group_keys",
        "events of a parked key wait until it is unparked",
        "no key of a share group is parked",
        lambda probe: probe.fetch(doctor_logs.parked_group_keys()),
    ),
    Check(
        "pipelines",
        "the lake falls behind, and the log keeps all events for it; its row is only its registration",
        "pipelines run or have caught up",
        lambda probe: probe.fetch(
            doctor_logs.pipelines(probe.thresholds.unread_s, probe.thresholds.gone_s)
        ),
    ),
)
