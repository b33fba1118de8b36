"""pgq._is_restored: true after restoring a dump, false after vacuum, failover, PITR and pg_upgrade.

Also covers pgq._mark_origin. test_after_restore_states.py covers pgq._refuse_restored.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from support import rows, value, wait_until
from support.epoch import run_as_owner
from support.restore import dump_and_restore
from support.servers import DEBIAN_15, Database, make_server

LOG = "changes"


def fill(database: Database) -> str:
    """Create a log with two ticks and an event after them; return its incarnation."""
    with database.connect() as connection:
        connection.execute("select pgq.create_queue(%s)", (LOG,))
        connection.execute("select pgq.register_consumer(%s, 'lake')", (LOG,))
        connection.execute("select pgq.insert_event(%s, 't', '1')", (LOG,))
        connection.execute("select sluice.log_tick(%s)", (LOG,))
        connection.execute("select pgq.insert_event(%s, 't', '2')", (LOG,))
        return value(connection, "select sluice.log_incarnation(%s)", LOG)


def go_on(database: Database) -> str:
    """Check that the log continues without a repair; return its incarnation."""
    with database.connect() as connection:
        assert rows(connection, "select * from sluice.after_restore()") == []
        assert value(connection, "select sluice.log_tick(%s)", LOG) == 3
        found = []
        while batch := value(connection, "select pgq.next_batch(%s, 'lake')", LOG):
            found += rows(connection, "select ev_data from pgq.get_batch_events(%s)", batch)
            connection.execute("select pgq.finish_batch(%s)", (batch,))
        assert found == [("1",), ("2",)]
        return value(connection, "select sluice.log_incarnation(%s)", LOG)


@contextmanager
def copied(database: Database, template: str) -> Iterator[Database]:
    """A copy of a template as another database of the same server."""
    name = f"{database.name}_copy"
    with psycopg.connect(database.server.url(), autocommit=True) as connection:
        connection.execute(f"create database {name} template {template} strategy file_copy")
        yield Database(database.server, name)
        connection.execute(f"drop database {name} with (force)")


def test_tables_written_anew_by_vacuum_are_not_taken_for_a_restored_dump(database):
    incarnation = fill(database)
    with database.connect() as connection:
        for command in ("vacuum (freeze)", "vacuum (full, freeze)", "cluster pgq.origin"):
            connection.execute(
                command if "cluster" not in command else f"{command} using origin_pkey"
            )
    assert go_on(database) == incarnation


def test_a_copy_of_the_database_in_its_server_is_another_log_and_needs_no_repair(database):
    incarnation = fill(database)
    with copied(database, database.name) as copy:
        assert go_on(copy) != incarnation
    assert go_on(database) == incarnation


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--single-transaction",)])
def test_a_dump_is_recognised_and_is_another_log_after_the_repair(database, options):
    incarnation = fill(database)
    with copied(database, "template0") as copy:
        dump_and_restore(database, copy, *options)
        with copy.connect() as connection:
            assert value(connection, "select pgq._is_restored(1)") is True
            assert value(connection, "select pgq._is_restored(0)") is True
            connection.execute("select sluice.after_restore()")
            assert value(connection, "select pgq._is_restored(1)") is False
            assert value(connection, "select pgq._is_restored(0)") is False
        assert go_on(copy) != incarnation


@pytest.fixture
def make(servers_folder) -> Iterator:
    """Factory of servers, which stop at the end of the test."""
    made = []

    def make_one(name: str, version: str) -> EmbeddedServer:
        folder = servers_folder / name
        folder.mkdir(mode=0o755)
        made.append(make_server(version, folder))
        return made[-1]

    yield make_one
    for server in made:
        server.stop("immediate")


def back_up(server: EmbeddedServer, folder: EmbeddedServer) -> None:
    """Replace the data folder of another server with a base backup of a server."""
    folder.start()
    folder.stop()
    for path in folder.data.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    run_as_owner(
        server,
        "pg_basebackup", "-X", "fetch", "-c", "fast", "-D", str(folder.data), "-d", server.url(),
    )  # fmt: skip


@pytest.mark.slow
def test_a_promoted_standby_goes_on(make):
    primary, standby = make("primary", "18"), make("standby", "18")
    primary.start()
    database = Database(primary, "postgres")
    with database.connect() as connection:
        schema.install(connection)
    incarnation = fill(database)
    back_up(primary, standby)
    primary.stop("immediate")
    (standby.data / "standby.signal").touch()
    standby.start()
    copy = Database(standby, "postgres")
    with copy.connect() as connection:
        assert value(connection, "select pg_promote()") is True
    assert go_on(copy) == incarnation


@pytest.mark.slow
def test_recovery_to_a_point_in_time_goes_on_and_reuses_tick_numbers(make):
    server, recovered = make("archiving", "18"), make("recovered", "18")
    server.start()
    archive = server.data / "archive"
    run_as_owner(server, "/bin/mkdir", archive)
    database = Database(server, "postgres")
    with database.connect() as connection:
        schema.install(connection)
        connection.execute("alter system set archive_mode = 'on'")
        connection.execute(f"alter system set archive_command = 'cp %p {archive}/%f'")
    server.stop()
    server.start()
    incarnation = fill(database)
    back_up(server, recovered)
    with database.connect() as connection:
        timed = value(connection, "select sluice.log_incarnation(%s, true)", LOG)
        connection.execute("select pg_create_restore_point('before')")
        connection.execute("select pgq.insert_event(%s, 't', 'lost')", (LOG,))
        lost_tick = value(connection, "select sluice.log_tick(%s)", LOG)
        segment = value(connection, "select pg_walfile_name(pg_switch_wal())")
        wait_until(
            lambda: value(connection, "select last_archived_wal from pg_stat_archiver") == segment,
            "the last segment to be archived",
        )
    server.stop("immediate")

    with (recovered.data / "postgresql.auto.conf").open("a") as settings:
        settings.write(
            f"""
            restore_command = 'cp {archive}/%f %p'
            archive_mode = 'off'
            recovery_target_name = 'before'
            recovery_target_action = 'promote'
            """
        )
    (recovered.data / "recovery.signal").touch()
    recovered.start()
    copy = Database(recovered, "postgres")
    with copy.connect() as connection:
        wait_until(lambda: not value(connection, "select pg_is_in_recovery()"), "recovery to end")
        assert value(connection, "select pgq._is_restored(1)") is False
        assert value(connection, "select pgq._is_restored(0)") is False
    assert go_on(copy) == incarnation
    with copy.connect() as connection:
        # Only the timeline shows the lost tick to an external consumer that has seen it.
        assert value(connection, "select max(tick_id) from pgq.tick") == lost_tick
        assert value(connection, "select sluice.log_incarnation(%s, true)", LOG) != timed


@pytest.mark.slow
@pytest.mark.parametrize("version", ["16", "15"])
def test_pg_upgrade_goes_on_and_keeps_the_incarnation(make, version):
    if version == "15" and not DEBIAN_15.exists():
        pytest.skip(f"PostgreSQL 15 is not installed in {DEBIAN_15}")
    old, new = make(f"before{version}", version), make(f"after{version}", "18")
    for server in (old, new):
        server.start()
    database = Database(old, "postgres")
    with database.connect() as connection:
        schema.install(connection)
    incarnation = fill(database)
    with database.connect() as connection:
        system = value(connection, "select system_identifier from pg_control_system()")
    for server in (old, new):
        server.stop()
    run_as_owner(new, "pg_checksums", "--disable", "-D", str(new.data))  # as in the old cluster
    run_as_owner(
        new,
        "pg_upgrade", "-b", str(old.bin_dir), "-B", str(new.bin_dir), "-d", str(old.data), "-D", str(new.data),
        "-U", "postgres", "--socketdir", str(new.data), cwd=new.data,
    )  # fmt: skip
    new.start()
    upgraded = Database(new, "postgres")
    with upgraded.connect() as connection:
        assert value(connection, "select system_identifier from pg_control_system()") != system
    assert go_on(upgraded) == incarnation


@pytest.mark.parametrize("part", [0, 1])
def test_rows_of_the_origin_that_are_missing_or_written_anew_count_as_restored(connection, part):
    for change in ("delete from pgq.origin", "update pgq.origin set part = part"):
        connection.execute("select pgq.create_queue('changes')")
        assert value(connection, "select pgq._is_restored(1)") is False
        with connection.transaction(force_rollback=True):
            connection.execute(f"{change} where queue_id = 1 and part = {part}")
            assert value(connection, "select pgq._is_restored(1)") is True
            with connection.transaction():
                connection.execute("select pgq._mark_origin(1)")
            assert value(connection, "select pgq._is_restored(1)") is False
