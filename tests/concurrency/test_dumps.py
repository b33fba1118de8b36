"""pg_dump during maintenance: dumps are complete, although TRUNCATE is not MVCC-safe."""

from __future__ import annotations

import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

from support import rows, value, wait_until

GROUP = "sluice.claim('changes', 'mail', 10, '1 hour')"
CLAIMS = "select group_id, claim_id from sluice.claim order by 1, 2"


@contextmanager
def waiting_dump(database, file):
    """Run pg_dump; in the block it has its snapshot and waits for its first lock.

    It locks tables in the order of their OIDs, and sluice.migration is our first one.
    """
    with database.connect(autocommit=False) as holder, database.connect() as observer:
        holder.execute("lock table sluice.migration in access exclusive mode")
        bin_dir = Path(database.server.bin_dir)
        command = [bin_dir / "pg_dump", "--format=custom", f"--file={file}", database.url]
        dump = subprocess.Popen(command, stderr=subprocess.PIPE)
        try:
            wait_until(
                lambda: (
                    rows(
                        observer,
                        """select from pg_stat_activity
                    where datname = current_database() and application_name = 'pg_dump' and wait_event_type = 'Lock'""",
                    )
                    != []
                ),
                "pg_dump to wait for a lock",
            )
            yield
        finally:
            holder.rollback()
            _, errors = dump.communicate(timeout=60)
    assert (dump.returncode, errors) == (0, b"")


def prepare(connection):
    """Create a log with a consumer, a group, and events that neither has read."""
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("update pgq.queue set queue_rotation_period = '0'")
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    connection.execute("select sluice.create_group('changes', 'mail', '{}')")
    connection.execute(
        "select pgq.insert_event('changes', 't', n::text) from generate_series(1, 3) as n"
    )
    connection.execute("select sluice.log_tick('changes')")


def rotate(connection):
    """Truncate everything possible; return the actions and reasons for the segments."""
    connection.execute("select sluice.log_tick('changes')")
    found = []
    for _ in range(3):
        connection.execute("select pgq._maintain_positions(1)")
        connection.execute("select pgq._maintain_retry(1)")
        connection.execute("select sluice._maintain_ledgers(1)")
        found += rows(connection, "select action, reason from sluice.rotate('changes')")
    return found


def test_dump_keeps_what_its_snapshot_saw_while_maintenance_runs(
    database, connection, empty_database, tmp_path
):
    prepare(connection)
    with waiting_dump(database, tmp_path / "dump"):
        # After the dump's snapshot, all events are read and rotated away.
        claim_id = value(connection, f"select claim_id from {GROUP} limit 1")
        connection.execute("select sluice.acknowledge('changes', 'mail', %s)", [claim_id])
        batch = value(connection, "select pgq.next_batch('changes', 'lake')")
        connection.execute("select pgq.finish_batch(%s)", [batch])
        rotate(connection)

    subprocess.run(
        [
            Path(database.server.bin_dir) / "pg_restore",
            *("--exit-on-error", f"--dbname={empty_database.url}", tmp_path / "dump"),
        ],
        check=True,
    )
    with empty_database.connect() as there:
        there.execute("select * from sluice.after_restore()")
        batch = value(there, "select pgq.next_batch('changes', 'lake')")
        assert rows(there, "select ev_data from pgq.get_batch_events(%s)", batch) == [
            ("1",),
            ("2",),
            ("3",),
        ]
        assert rows(there, f"select ev_data from {GROUP}") == [("1",), ("2",), ("3",)]


def test_maintenance_goes_on_after_a_dump_and_names_it_before(database, connection, tmp_path):
    prepare(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    connection.execute("select pgq.finish_batch(%s)", [batch])
    claim_id = value(connection, f"select claim_id from {GROUP} limit 1")
    connection.execute("select sluice.acknowledge('changes', 'mail', %s)", [claim_id])
    with database.connect(application_name="pg_dump") as dump:
        reasons = {reason for action, reason in rotate(connection) if action == "kept"}
        assert f"locked by pid {dump.info.backend_pid}" in reasons
        assert value(connection, "select count(*) from pgq.event_1") == 3

    wait_until(
        lambda: value(connection, "select pgq._dumped_by() is null") is True, "the session to end"
    )
    assert "reclaimed" in {action for action, _ in rotate(connection)}
    assert value(connection, "select count(*) from pgq.event_1") == 0


def begin_dump_while_ledgers_are_copied(database, connection):
    """Take the snapshot of a dump while maintenance waits for a ledger.

        Return the result of maintenance, the claims that the dump sees, and the reason that
    maintenance gives if it detected the dump.

    Maintenance looks for sessions of pg_dump before it waits, for at most 100 ms; on a busy machine
        the dump may start later.
    """
    emptied: list[tuple[str, str]] = []
    with (
        database.connect(autocommit=False) as holder,
        database.connect() as cleaner,
        database.connect(autocommit=False) as dump,
    ):
        holder.execute("lock table sluice.redelivery_1 in share mode")
        thread = threading.Thread(
            target=lambda: emptied.extend(
                rows(cleaner, "select * from sluice._maintain_ledgers(0)")
            )
        )
        dump.execute("set transaction isolation level repeatable read")
        thread.start()
        waiting = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
        wait_until(
            lambda: (
                value(connection, waiting, cleaner.info.backend_pid) is True
                or not thread.is_alive()
            ),
            "maintenance to wait for the lock",
        )
        dump.execute("set application_name = 'pg_dump'")
        dump.execute("select 1")
        holder.rollback()
        thread.join(30)
        return emptied, rows(dump, CLAIMS), f"locked by pid {dump.info.backend_pid}"


def test_dump_that_begins_while_the_ledgers_are_copied_has_them(database, connection):
    prepare(connection)
    value(connection, f"select claim_id from {GROUP} limit 1")
    before = rows(connection, CLAIMS)

    for _ in range(50):
        emptied, dumped, reason = begin_dump_while_ledgers_are_copied(database, connection)
        assert [action for action, _ in emptied] == ["kept"]
        assert dumped == before
        if emptied == [("kept", reason)]:
            break

    assert emptied == [("kept", reason)]
    wait_until(
        lambda: value(connection, "select pgq._dumped_by() is null") is True, "the session to end"
    )
    assert value(connection, "select action from sluice._maintain_ledgers(0)") == "emptied"
