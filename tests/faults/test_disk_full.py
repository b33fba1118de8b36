"""A full disk: no message is lost, no attempt is counted, and the worker continues afterwards."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest

from faults.workers import Workers
from pgsluice import DiskFullError, WorkQueue, schema
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import ConnectionFailedError, EmbeddedServerError
from support import rows, value
from support.programs import require

DISK = "16m"
QUEUES = ("threads", "loop", "held")
EACH = 20


@contextlib.contextmanager
def mounted(servers_folder, server, size):
    """A small disk that is writable for a server."""
    require("mount", "umount", purpose="a small disk")
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    owner = server.data.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def disk(servers_folder, server_18):
    with mounted(servers_folder, server_18, DISK) as folder:
        yield folder


@pytest.fixture
def small(connection, disk):
    """A tablespace on the small disk that holds the queues and the handlers' effects."""
    name = f"small_{value(connection, 'select current_database()::text')}"
    connection.execute(f"create tablespace {name} location '{disk}'")
    tables = [f"pgmq.{kind}_{queue}" for queue in QUEUES for kind in "qa"]
    query = "select indexrelid::regclass::text from pg_index where indrelid = %s::regclass"
    for table in (*tables, "public.effect"):
        connection.execute(f"alter table {table} set tablespace {name}")
        for (index,) in rows(connection, query, table):
            connection.execute(f"alter index {index} set tablespace {name}")
    yield name
    connection.execute("drop table if exists filler")
    connection.execute("alter table public.effect set tablespace pg_default")
    for queue in QUEUES:
        connection.execute("select pgmq.drop_queue(%s)", [queue])
    connection.execute(f"drop tablespace {name}")


def fill(connection, tablespace):
    """Fill the disk, with smaller and smaller inserts."""
    connection.execute(f"create table filler (n text) tablespace {tablespace}")
    connection.execute("alter table filler alter n set storage plain")
    for qty in (1_000, 100, 10, 1):
        with contextlib.suppress(psycopg.errors.DiskFull):
            while True:
                connection.execute(
                    "insert into filler select repeat('x', 8000) from generate_series(1, %s)", [qty]
                )


def test_a_full_disk_costs_no_attempt_and_each_effect_is_written_once(
    connection, queue, workers, small
):
    for number, name in enumerate(QUEUES):
        first = number * EACH
        queue.send_batch(name, [{"n": first + n, "seconds": 0.3} for n in range(EACH)])
    some = workers(",".join(QUEUES), "--no-maintenance", "--lease", "60s")
    process = some.start()
    some.wait_until(lambda: len(some.lines("start")) >= 3, "the first handlers to start")

    fill(connection, small)
    # Fill the remaining space in pages with small rows.
    with contextlib.suppress(psycopg.errors.DiskFull):
        connection.execute("insert into effect select -1, 0 from generate_series(1, 1000)")
    some.wait_until(lambda: some.log().count("No space left on device") >= 4, "lines")
    assert process.poll() is None
    with pytest.raises(DiskFullError, match="No space left on device; Check free disk space"):
        queue.send_batch("threads", [{"n": -1, "text": "x" * 1000}] * 100)
    connection.execute("drop table filler")
    some.wait_until(
        lambda: value(connection, "select count(*) from effect where n >= 0") >= len(QUEUES) * EACH,
        "all messages to be handled",
        60,
    )

    query = "select n, count(*), max(attempt) from effect where n >= 0 group by n order by n"
    assert rows(connection, query) == [(n, 1, 1) for n in range(len(QUEUES) * EACH)]
    assert value(connection, "select count(*) from sluice.dead_letter") == 0


@contextlib.contextmanager
def with_wal_on_a_small_disk(servers_folder):
    """A running server whose pg_wal is on a disk of 100 MB, and the folder of that disk."""
    options = {"fsync": "off", "min_wal_size": "32MB", "max_wal_size": "64MB"}
    server = EmbeddedServer(
        Path(tempfile.mkdtemp(dir=servers_folder)) / "wal", version=18, options=options
    )
    server.data.parent.chmod(0o755)
    server.start()
    server.stop("fast")
    wal = server.data / "pg_wal"
    owner = wal.stat()
    with mounted(servers_folder, server, "100m") as disk:
        moved = shutil.copytree(wal, disk / "pg_wal")
        for path in (moved, *moved.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        moved.chmod(0o700)
        shutil.rmtree(wal)
        wal.symlink_to(moved)
        os.lchown(wal, owner.st_uid, owner.st_gid)
        server.start()
        try:
            yield server, disk
        finally:
            server.stop("immediate")


def incompressible(number: int) -> str:
    return hashlib.shake_256(str(number).encode()).hexdigest(50_000)


def send_until_the_server_stops(connection) -> int:
    """Return the number of acknowledged sends."""
    queue, sent = WorkQueue(connection), 0
    with contextlib.suppress(ConnectionFailedError):
        while True:
            queue.send("threads", {"n": sent, "text": incompressible(sent)})
            sent += 1
    return sent


@pytest.mark.slow
def test_full_disk_of_the_wal_stops_the_server_and_no_acknowledged_send_is_lost(
    servers_folder, tmp_path
):
    with (
        with_wal_on_a_small_disk(servers_folder) as (server, disk),
        Workers(server.url(), tmp_path, queues="threads") as some,
    ):
        with psycopg.connect(server.url(), autocommit=True) as connection:
            schema.install(connection)
            connection.execute("create table effect (n bigint, attempt integer)")
            WorkQueue(connection).create("threads")
            process = some.start()
            filler = disk / "filler"
            with filler.open("wb", 0) as file, contextlib.suppress(OSError):
                while file.write(bytes(1 << 20)):
                    pass
            sent = send_until_the_server_stops(connection)
        some.wait_until(lambda: not server.running(), "the server to stop")
        with pytest.raises(EmbeddedServerError, match="No space left on device"):
            server.start()

        filler.unlink()
        server.start()
        with psycopg.connect(server.url(), autocommit=True) as connection:
            query = "select count(*) from pgmq.q_threads"
            some.wait_until(lambda: value(connection, query) == 0, "all messages to be handled")
            found = rows(connection, "select n, count(*) from effect group by n order by n")
            # The last send was not acknowledged, and may be committed.
            assert found[:sent] == [(n, 1) for n in range(sent)]
            assert len(found) <= sent + 1
            assert value(connection, "select count(*) from sluice.dead_letter") == 0
        assert process.poll() is None
