"""Checks of the server: reachability, clock, sessions, snapshots, vacuum and connections."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from pgsluice.client.calls import doctor, doctor_settings, upkeep
from pgsluice.client.calls.doctor import Symptom
from pgsluice.ops.doctor.findings import Check
from pgsluice.ops.doctor.probe import Probe, fetch_on
from pgsluice.sessions import SluiceConnection, needs_begin

_POOLER_TRIES = 5


def _writable(probe: Probe) -> Iterable[Symptom]:
    server = probe.fetch(upkeep.server())
    if server.is_standby:
        yield Symptom(
            "fail",
            "the server is a standby, and refuses writes",
            "pgsluice doctor --dsn 'postgresql://host1,host2/database?target_session_attrs=read-write'",
        )
    elif probe.fetch_alone(doctor.is_in_recovery()):
        yield Symptom(
            "fail",
            "a statement alone reaches a standby, and a transaction the primary: a pooler splits reads from writes",
            "pgsluice doctor --dsn postgresql://primary/database",
        )
    elif server.is_read_only:
        yield Symptom(
            "fail",
            f"transactions of role {server.role_name} are read-only by default",
            doctor.reset_read_only(server.role_name, server.database_name),
        )


def _pooler(probe: Probe) -> Iterable[Symptom]:
    server = probe.fetch(upkeep.server())
    known = probe.connection.info.backend_pid
    if server.backend_pid == known or _is_session_mode(probe):
        return
    yield Symptom(
        "warn",
        f"a pooler is in between: the client knows session {known}, and the server has {server.backend_pid}",
        "pgsluice doctor --dsn postgresql://server:5432/database",
    )


def _is_session_mode(probe: Probe) -> bool:
    """True if another connection gets another server session while this one is idle.

    In transaction mode the pooler gives it the session that this one has just returned.
    """
    if probe.reconnect is None:
        return False
    with probe.reconnect() as other:
        pairs = [
            (probe.fetch(upkeep.server()).backend_pid, fetch_on(other, upkeep.server()).backend_pid)
            for _ in range(_POOLER_TRIES)
        ]
    return all(mine != others for mine, others in pairs)


def _settings(probe: Probe) -> Iterable[Symptom]:
    server = probe.fetch_alone(upkeep.server())
    is_ours = isinstance(probe.connection, SluiceConnection)
    if server.isolation_level != "read committed" and is_ours and not needs_begin(probe.connection):
        yield Symptom(
            "fail",
            f"a pooler drops the startup options, so sessions of pgsluice are {server.isolation_level}: claims, ticks "
            "and maintenance fail; afterwards reconnect the pooler",
            doctor.set_read_committed(server.role_name),
        )
    yield from probe.fetch(doctor_settings.odd_settings())


def _clock(probe: Probe) -> Iterable[Symptom]:
    before = datetime.now(UTC)
    server_at = probe.fetch_alone(doctor.server_clock())
    after = datetime.now(UTC)
    # The server read its clock between the two.
    limit = timedelta(seconds=probe.thresholds.clock_s)
    ahead = max(server_at - after, before - server_at, timedelta(0))
    if ahead > limit:
        side = "ahead of" if server_at > after else "behind"
        yield Symptom(
            "warn",
            f"the server's clock is {ahead.total_seconds():.1f} s {side} this machine's",
            "chronyc tracking  # on both machines; then correct the wrong one",
        )


def _connections(probe: Probe) -> Iterable[Symptom]:
    found = probe.fetch(upkeep.connections_left())
    names = {"role": found.role_name, "database": probe.fetch(upkeep.server()).database_name}
    for name, limit, used in found.bounds():
        if used >= probe.thresholds.connections * limit:
            status = "fail" if used >= limit else "warn"
            yield Symptom(
                status,
                f"{used} of {limit} connections of the {name} are in use",
                doctor.more_connections(name, names.get(name, ""), 2 * limit),
            )


CHECKS = (
    Check(
        "writable",
        "sends, reads and acknowledgements write; on a standby they all fail",
        "the server accepts writes",
        _writable,
        scope="server",
    ),
    Check(
        "pooler",
        "in transaction mode notifications, session locks and leader election do not work; workers poll instead",
        "no pooler between client and server",
        _pooler,
        scope="server",
    ),
    Check(
        "clock",
        "times in logs and delays computed by clients differ from the server's, which decides leases and schedules",
        "client and server agree on the time",
        _clock,
        scope="server",
    ),
    Check(
        "connections",
        "without a free connection workers, producers and this command cannot connect",
        "connections are free",
        _connections,
        scope="server",
    ),
    Check(
        "settings",
        "pgsluice's own connections pin what they need; psql, other clients, pgqd and those of applications inherit it",
        "server, database and roles have no setting that hinders sessions",
        _settings,
        scope="server",
    ),
    Check(
        "idle_in_transaction",
        "the session keeps its locks and its snapshot: vacuum removes no row deleted since, and reads slow down",
        "no session idles in a transaction",
        lambda probe: probe.fetch(
            doctor.idle_in_transaction(probe.thresholds.idle_in_transaction_s)
        ),
        scope="server",
    ),
    Check(
        "snapshots",
        "vacuum cannot remove rows deleted since the snapshot, so queues bloat and reads slow down",
        "no old snapshot is held",
        lambda probe: probe.fetch(
            doctor.held_snapshots(probe.thresholds.snapshot_s, probe.thresholds.snapshot_age)
        ),
        scope="server",
    ),
    Check(
        "prepared_transactions",
        "a forgotten one keeps its locks and holds back vacuum, even after a restart; a rollback undoes its changes",
        "no old prepared transaction",
        lambda probe: probe.fetch(doctor.prepared_transactions(probe.thresholds.prepared_s)),
        scope="server",
    ),
    Check(
        "replication_slots",
        "the server keeps all WAL since the slot's position, until the disk is full; the standby or subscriber of a "
        "dropped slot must be set up anew",
        "no inactive slot keeps WAL",
        lambda probe: probe.fetch(doctor.inactive_slots(probe.thresholds.slot_bytes)),
        scope="server",
    ),
    Check(
        "transaction_ids",
        "the server refuses writes before transaction ids wrap around",
        "old rows are frozen before transaction ids run out",
        lambda probe: probe.fetch(doctor.transaction_ids()),
        scope="server",
    ),
    Check(
        "autovacuum",
        "dead rows of queues are never removed, so each read takes longer",
        "autovacuum is on",
        lambda probe: probe.fetch(doctor.autovacuum_settings()),
        scope="server",
    ),
    Check(
        "dead_rows",
        "reads skip each dead row; usually a held snapshot, or too few autovacuum workers, keeps them",
        "tables are vacuumed",
        lambda probe: probe.fetch(
            doctor.dead_rows(probe.thresholds.dead_rows, probe.thresholds.vacuum_s)
        ),
        is_fixable=True,
        scope="server",
    ),
    Check(
        "slow_counts",
        "an exact count reads the whole table, each time; pgmq.metrics and `pgsluice queue list` do not",
        "no statement counts the rows of a queue",
        lambda probe: probe.fetch(doctor.slow_counts(probe.thresholds.count_s)),
        scope="server",
    ),
    Check(
        "notifications",
        "when the queue is full, each transaction with a notification fails; a listener in a transaction keeps it",
        "the queue of notifications is nearly empty",
        lambda probe: probe.fetch(doctor.notification_queue(probe.thresholds.notifications)),
        scope="server",
    ),
    Check(
        "cron_history",
        "pg_cron records each run and deletes none; to truncate the table removes the history, and no job",
        "no large history of pg_cron",
        lambda probe: probe.fetch(doctor.cron_history(probe.thresholds.cron_bytes)),
        scope="server",
    ),
)
