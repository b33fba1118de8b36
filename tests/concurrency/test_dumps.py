"""pg_dump during maintenance: dumps are complete, although TRUNCATE is not MVCC-safe."""

from __future__ import annotations

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from support import replace_in, rows, value, wait_for_lock, wait_until

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


STATES = {
    "positions": "select sub_key, pos_move, pos_last_tick, pos_batch from pgq.standing order by 1",
    "retries": "select distinct ev_id, entry_batch, ev_data from pgq.retry_entry",
    "passes": "select max(pass_id), count(*) > 0 from pgq.retry_pass",
    "claims": CLAIMS,
    "events": "select ev_id from pgq.event_1 order by 1",
    "workers": "select process_id from sluice.reporting order by 1",
}


def states(connection):
    return {name: rows(connection, query) for name, query in STATES.items()}


def use_everything(connection):
    """Retry an event, leave a batch and a claim open, and report a worker."""
    prepare(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    connection.execute("select pgq.event_retry(%s, 1, 3600)", [batch])
    connection.execute("select pgq.finish_batch(%s)", [batch])
    value(connection, f"select claim_id from {GROUP} limit 1")
    for worker_id in ("w", "ended"):
        connection.execute(
            "select sluice.report_worker(%s, 'app', 'host', 1, '1', '{}', 1, interval '0')",
            [worker_id],
        )
    connection.execute("select sluice.end_worker('ended')")
    connection.execute("select pgq.insert_event('changes', 't', '4')")
    connection.execute("select sluice.log_tick('changes')")
    value(connection, "select pgq.next_batch('changes', 'lake')")


def begin_dump(database):
    """Connect and take the snapshot as pg_dump does; it locks tables later."""
    dump = database.connect(application_name="pg_dump", autocommit=False)
    dump.execute("set transaction isolation level repeatable read")
    dump.execute("select 1")
    return dump


def end_dump(connection, dump):
    dump.close()
    wait_until(
        lambda: value(connection, "select pgq._dumped_by() is null") is True, "the session to end"
    )


# What is called before, in transactions of its own, and the calls of the transaction that truncates.
TRUNCATIONS = {
    "positions": (["pgq._maintain_positions(1)"], ["pgq._maintain_positions(1)"]),
    "retries": (["pgq._maintain_retry(0)"], ["pgq._maintain_retry(0)"]),
    "passes": ([], ["pgq._maintain_retry(0)"]),
    "claims": ([], ["sluice._maintain_ledgers(0)"]),
    "events": (
        ["sluice.rotate('changes')"],  # the first segment is no longer the current one
        [
            "pgq.finish_batch(pos_batch) from pgq.standing where pos_batch is not null",
            "sluice.drop_group('changes', 'mail')",
            "sluice.rotate('changes')",
        ],
    ),
    "workers": ([], ["sluice._maintain_processes('0'::interval)"]),
}
TRUNCATED = "select count(*) from pgq.truncation"


def truncate(session, calls):
    for call in calls:
        session.execute(f"select {call}")


@contextmanager
def dump_during_truncation(database, connection, table):
    """Begin a dump while a transaction that truncates is open, and commit this.

    Yields what was there before, the session of the dump, and the error of the commit.
    """
    earlier, calls = TRUNCATIONS[table]
    use_everything(connection)
    truncate(connection, earlier)
    before = states(connection)
    error = None
    with database.connect(autocommit=False) as session:
        truncate(session, calls)
        dump = begin_dump(database)
        try:
            session.commit()
        except psycopg.Error as raised:
            error = raised
    yield before, dump, error
    end_dump(connection, dump)


@pytest.mark.parametrize("table", TRUNCATIONS)
def test_truncation_during_which_a_dump_begins_is_rolled_back(database, connection, table):
    with dump_during_truncation(database, connection, table) as (before, dump, error):
        assert isinstance(error, psycopg.errors.SerializationFailure)
        pid = dump.info.backend_pid
        assert f"pg_dump was started meanwhile (pid {pid})" in str(error)
        assert states(dump) == before
        assert states(connection) == before

    truncated = value(connection, TRUNCATED)
    with database.connect(autocommit=False) as session:
        truncate(session, TRUNCATIONS[table][1])
        assert value(session, TRUNCATED) == truncated + 1, "this transaction has truncated nothing"
    assert value(connection, TRUNCATED) == truncated + 1


# Function → the part of its source that leads to the check at the commit.
AT_COMMIT = {
    "pgq._refuse_if_dumped()": ("if v_pids is not null then", "if false then"),
    "pgq._lock_tables(regclass[],text,integer)": ("perform pgq._note_truncation();", ""),
    "pgq._note_truncation()": (
        "insert into pgq.truncation default values on conflict do nothing;",
        "",
    ),
    "pgq._dumped_by()": ("select pg_stat_clear_snapshot();", ""),  # a cached list of the sessions
}


@pytest.mark.slow
@pytest.mark.parametrize("function", AT_COMMIT)
@pytest.mark.parametrize(
    "table",
    # Positions and retries are copied in a transaction before, so that no dump misses them.
    [table for table in TRUNCATIONS if table not in {"positions", "retries"}],
)
def test_dump_lacks_rows_if_the_commit_does_not_look_for_it(database, connection, table, function):
    replace_in(connection, function, *AT_COMMIT[function])

    with dump_during_truncation(database, connection, table) as (before, dump, error):
        assert error is None
        assert states(dump)[table] != before[table], "the planted bug must lose rows of the dump"


@pytest.mark.parametrize(
    ("table", "ledger"), [("positions", "position_0"), ("retries", "retry_entry_0")]
)
def test_copies_are_committed_before_the_truncation_so_that_no_snapshot_misses_them(
    database, connection, table, ledger
):
    """Nor does the snapshot of a dump that cannot be found, because it is taken during the commit."""
    use_everything(connection)
    before = rows(connection, STATES[table])

    for _ in range(2):
        with (
            database.connect(autocommit=False) as session,
            database.connect(autocommit=False) as reader,
        ):
            truncate(session, TRUNCATIONS[table][1])
            reader.execute("set transaction isolation level repeatable read")
            reader.execute("select 1")
            session.commit()
            # A position and its copy, which has the next number, are the same.
            assert [row[2:] for row in rows(reader, STATES[table])] == [row[2:] for row in before]
            assert {row[0] for row in rows(reader, STATES[table])} == {row[0] for row in before}

    assert value(connection, f"select pg_relation_size('pgq.{ledger}')") == 0


def test_rotation_during_which_a_dump_begins_is_rolled_back(database, connection):
    use_everything(connection)
    for size, any_size in (
        ("positions(8388608::bigint)", "positions(1::bigint)"),
        ("retry(8388608::bigint, 20000)", "retry(0::bigint, 20000)"),
    ):
        replace_in(connection, "sluice.rotate(text)", size, any_size)
    connection.execute(
        "insert into sluice.failure (task, queue_name, group_name, failed_since, failed_at, error)"
        " values ('old', '', '', '-infinity', '-infinity', '')"
    )
    before = states(connection)

    with (
        ThreadPoolExecutor(1) as threads,
        database.connect(autocommit=False) as holder,
        database.connect() as session,
    ):
        # A rotation deletes old failures after it has truncated the shared tables.
        holder.execute("select from sluice.failure for update")
        rotation = threads.submit(session.execute, "select sluice.rotate()")
        wait_for_lock(connection, session)
        dump = begin_dump(database)
        holder.rollback()
        error = rotation.exception(30)

    assert states(dump) == before
    assert isinstance(error, psycopg.errors.SerializationFailure)
    end_dump(connection, dump)
    connection.execute("select sluice.rotate()")
    assert value(connection, TRUNCATED) == 1


def test_transactions_are_noted_in_little_space_and_without_waiting(database, connection):
    """Under a held snapshot too: rows are appended and truncated."""
    call = "select pgq._lock_tables('{sluice.process}'::regclass[], 'access exclusive', 0)"
    with database.connect(autocommit=False) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1")
        connection.execute(
            "insert into pgq.truncation select now(), n::text::xid8 from generate_series(1, 2000) as n"
        )
        with connection.transaction():
            assert value(connection, call) is True
            assert value(connection, TRUNCATED) == 1
            with database.connect() as other:
                other.execute("set lock_timeout = '10s'")
                assert value(other, call.replace("process", "stage")) is False
            assert value(connection, call) is True
        assert value(connection, TRUNCATED) == 1

    with connection.transaction():
        connection.execute(call)
        with database.connect() as other:
            assert value(other, call.replace("process", "stage")) is True
    assert value(connection, TRUNCATED) == 3
