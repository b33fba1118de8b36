"""Thresholds beyond which a check reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds beyond which a check reports, in seconds, bytes, rows or transactions.

    Attributes:
        idle_in_transaction_s: Idle time of a session in a transaction.
        snapshot_s: Time of a statement that holds a snapshot.
        snapshot_age: Age of a held snapshot, in transactions.
        prepared_s: Time since a transaction was prepared.
        slot_bytes: WAL kept by an inactive replication slot.
        dead_rows: Dead rows of a table.
        vacuum_s: Time since the last vacuum of a table with dead rows.
        count_s: Time of a statement that counts the rows of a queue.
        clock_s: Difference between the clocks of client and server.
        cron_bytes: Size of the history of pg_cron.
        connections: Fraction of the connections in use.
        notifications: Fraction of the server's queue of notifications in use.
        undrained_s: Time since a message, or an event of a share group, has been ready, without a read.
        held_s: Time since a message was read, and left until it is visible.
        dead_letters: New dead letters of a queue, share group or consumer within `dead_letters_s`.
        dead_letters_s: See `dead_letters`.
        grouped_bytes: Size of a queue whose messages have groups.
        archive_bytes: Size of an archive without a retention.
        stage_s: Age of a stage; maintenance drops it after one day.
        tick_s: Time since the last tick of a log that no process ticks.
        overdue_s: Time since the last maintenance of partitions.
        late_s: Time since a schedule was due.
        consumer_idle_s: Time since the last read of a consumer that keeps `pinned_bytes`.
        pinned_bytes: Size of the segments kept for a consumer.
        unread_s: Time since the last read of a consumer or pipeline that is behind; a nightly one is quiet.
        gone_s: Time since a pipeline whose consumer is gone was started.
    """

    idle_in_transaction_s: float = 300
    snapshot_s: float = 3600
    snapshot_age: int = 1_000_000
    prepared_s: float = 300
    slot_bytes: int = 1 << 30
    dead_rows: int = 100_000
    vacuum_s: float = 600
    count_s: float = 5
    clock_s: float = 5
    cron_bytes: int = 100 << 20
    connections: float = 0.8
    notifications: float = 0.1
    undrained_s: float = 3600
    held_s: float = 1800
    dead_letters: int = 10
    dead_letters_s: float = 3600
    grouped_bytes: int = 1 << 20
    archive_bytes: int = 1 << 30
    stage_s: float = 2 * 86_400
    tick_s: float = 60
    overdue_s: float = 600
    late_s: float = 120
    consumer_idle_s: float = 3600
    pinned_bytes: int = 1 << 30
    unread_s: float = 26 * 3600
    gone_s: float = 30 * 86_400
