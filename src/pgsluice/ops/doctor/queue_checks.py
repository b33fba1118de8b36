"""Checks of work queues: readers, claims, poison messages, indexes, storage and archives."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import timedelta

import psycopg

from pgsluice.client.calls import doctor_queues, doctor_workers
from pgsluice.client.calls.doctor import Symptom
from pgsluice.client.calls.doctor_queues import QueueHead
from pgsluice.client.sentences import counted
from pgsluice.ops.doctor.findings import Check
from pgsluice.ops.doctor.probe import Probe

_QUEUES_PER_QUERY = 25  # their locks fit into the server's lock table many times


def heads(probe: Probe) -> Iterable[QueueHead]:
    """Return the heads of all queues with rows, the largest first.

    They are read once per diagnosis. If a check has no time left, the next one continues.
    """
    if probe.unread_heads is None:
        probe.unread_heads = probe.fetch(
            doctor_queues.head_queries(_QUEUES_PER_QUERY, probe.thresholds.held_s)
        )
    while probe.unread_heads:
        try:
            found = doctor_queues.heads(probe.fetch_text(probe.unread_heads[0]))
        except psycopg.errors.UndefinedTable:
            found = []  # a queue was dropped meanwhile
        probe.heads += found
        del probe.unread_heads[0]
    return probe.heads


def _undrained(probe: Probe) -> Iterable[Symptom]:
    limit = timedelta(seconds=probe.thresholds.undrained_s)
    now = probe.now()
    waiting = [
        head
        for head in heads(probe)
        if head.ready_since is not None
        and now - head.ready_since > limit
        and not head.is_retrying
        and (head.last_read_at is None or now - head.last_read_at > limit)
    ]
    if not waiting:
        return
    expected = {
        *probe.fetch(doctor_queues.started_since(probe.thresholds.undrained_s)),
        *_pauses(probe),
    }
    for head in waiting:
        if head.queue_name not in expected and head.ready_since is not None:
            ready = counted(head.ready, "message", at_least=head.ready >= 1000)
            read = (
                "never" if head.last_read_at is None else f"{head.last_read_at:%Y-%m-%d %H:%M:%S%z}"
            )
            yield Symptom(
                "warn",
                f"queue {head.queue_name!r}: {ready} ready since "
                f"{head.ready_since:%Y-%m-%d %H:%M:%S%z}, last read: {read}",
                f"pgsluice worker run MODULE:APP --queues {shlex.quote(head.queue_name)}",
            )


def _pauses(probe: Probe) -> dict[str, Symptom]:
    """Return the paused queues with their symptoms; none on a schema without pauses."""
    try:
        return probe.fetch(doctor_workers.paused_queues())
    except psycopg.errors.UndefinedFunction:
        return {}


def _paused(probe: Probe) -> Iterable[Symptom]:
    paused = _pauses(probe)
    if paused:
        for head in heads(probe):
            if head.ready and head.queue_name in paused:
                yield paused[head.queue_name]


def _held(probe: Probe) -> Iterable[Symptom]:
    for head in heads(probe):
        if head.held_ids:
            yield Symptom(
                "warn",
                f"queue {head.queue_name!r}: {counted(head.held, 'message', 'was', 'were')} read long ago and "
                f"invisible until {head.held_until:%Y-%m-%d %H:%M:%S%z}",
                doctor_queues.make_visible(head.queue_name, head.held_ids),
            )


def _poison(probe: Probe) -> Iterable[Symptom]:
    return probe.fetch(doctor_queues.poison_messages())


def _future(probe: Probe) -> Iterable[Symptom]:
    limit = probe.now() + timedelta(seconds=probe.thresholds.clock_s)
    for head in heads(probe):
        if head.newest_at is not None and head.newest_at > limit:
            yield Symptom(
                "warn",
                f"queue {head.queue_name!r}: its newest message is from {head.newest_at:%Y-%m-%d %H:%M:%S%z}, in the "
                "future: the clock of the server was set back",
                "chronyc tracking  # on the server",
            )


def _without_fifo_index(probe: Probe) -> Iterable[Symptom]:
    for name, query in probe.fetch(
        doctor_queues.without_fifo_index(probe.thresholds.grouped_bytes)
    ):
        if probe.fetch_text(query) == [(True,)]:
            yield doctor_queues.fifo_symptom(name)


def _parked(probe: Probe) -> Iterable[Symptom]:
    if probe.fetch(doctor_queues.may_read_keys()):
        return probe.fetch(doctor_queues.parked_keys())
    return probe.fetch(doctor_queues.parked_key_counts())


def _default_partitions(probe: Probe) -> Iterable[Symptom]:
    for name, query in probe.fetch(doctor_queues.default_partitions()):
        if probe.fetch_text(query) == [(True,)]:
            yield doctor_queues.default_partition_symptom(name)


# Three of the first four share the heads of queues: with thousands of queues, the last has them all.
CHECKS = (
    Check(
        "message_times",
        "ages, delays and retention of messages with times in the future are wrong",
        "no message is from the future",
        _future,
        scope="tables",
    ),
    Check(
        "poison_messages",
        "a message that fails in every attempt takes time from the others; a retry policy dead-letters it",
        "no message is read again and again",
        _poison,
    ),
    Check(
        "held_messages",
        "a reader that was killed leaves its messages invisible until their visibility timeout expires",
        "no message stays invisible long after it was read",
        _held,
    ),
    Check(
        "undrained_queues",
        "messages wait, and nothing reads them",
        "queues with messages are read",
        _undrained,
    ),
    Check(
        "paused_queues",
        "workers claim nothing from a paused queue until it is resumed",
        "no messages wait in a paused queue",
        _paused,
    ),
    Check(
        "silent_workers",
        "the process was killed or lost its connection, and no other has its handlers",
        "each worker that ended without notice has a replacement",
        lambda probe: probe.fetch(doctor_workers.silent_workers()),
    ),
    Check(
        "dead_letters",
        "these messages are not processed until they are redriven; correct the cause first",
        "few new dead letters",
        lambda probe: probe.fetch(
            doctor_queues.new_dead_letters(
                probe.thresholds.dead_letters, probe.thresholds.dead_letters_s
            )
        ),
    ),
    Check(
        "parked_keys",
        "messages of a parked key wait until it is unparked",
        "no key is parked",
        _parked,
    ),
    Check(
        "fifo_indexes",
        "without them each read_grouped reads the whole queue: seconds instead of milliseconds",
        "queues with groups have FIFO indexes",
        _without_fifo_index,
        is_fixable=True,
    ),
    Check(
        "notify_triggers",
        "listeners receive no notification, and poll instead",
        "queues with notifications have their trigger",
        lambda probe: probe.fetch(doctor_queues.notify_triggers()),
        is_fixable=True,
    ),
    Check(
        "storage_settings",
        "autovacuum's defaults are too rare for a queue, so reads skip more and more dead rows",
        "tables of queues have their storage settings",
        lambda probe: probe.fetch(doctor_queues.storage_settings()),
        is_fixable=True,
        scope="tables",
    ),
    Check(
        "archives",
        "an archive without a retention grows until the disk is full; a retention deletes older archived messages",
        "large archives have a retention",
        lambda probe: probe.fetch(doctor_queues.large_archives(probe.thresholds.archive_bytes)),
    ),
    Check(
        "partitions",
        "rows in the default partition are not dropped with their partition",
        "default partitions are empty",
        _default_partitions,
        is_fixable=True,
    ),
    Check(
        "stages",
        "tables that an aborted write of Spark left occupy disk; their rows were never sent",
        "no abandoned stage",
        lambda probe: probe.fetch(doctor_queues.orphan_stages(probe.thresholds.stage_s)),
        is_fixable=True,
    ),
)
