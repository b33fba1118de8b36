"""A full disk: no message is lost, no attempt is counted, and the worker continues afterwards."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest

from support import rows, value

DISK = "16m"
QUEUES = ("threads", "loop", "held")
EACH = 20


@pytest.fixture
def disk(servers_folder, server_18):
    """A small disk that is writable for the server."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    owner = server_18.data.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


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
    connection.execute("drop table filler")
    some.wait_until(
        lambda: value(connection, "select count(*) from effect where n >= 0") >= len(QUEUES) * EACH,
        "all messages to be handled",
        60,
    )

    query = "select n, count(*), max(attempt) from effect where n >= 0 group by n order by n"
    assert rows(connection, query) == [(n, 1, 1) for n in range(len(QUEUES) * EACH)]
    assert value(connection, "select count(*) from sluice.dead_letter") == 0
