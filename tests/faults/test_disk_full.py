"""A server without disk space: nothing is lost or counted, and the worker continues when there is room."""

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
    """A small disk that the server can write."""
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
    """The name of a tablespace on the small disk, with the queues and the effects of handlers in it."""
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
    """Write until nothing fits, in smaller and smaller pieces."""
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
    some = workers(",".join(QUEUES), "--no-maintenance", "--lease-s", "60")
    process = some.start()
    some.wait_until(lambda: len(some.lines("start")) >= 3, "the first")

    fill(connection, small)
    # Small rows may still find room in pages: take that too.
    with contextlib.suppress(psycopg.errors.DiskFull):
        connection.execute("insert into effect select -1, 0 from generate_series(1, 1000)")
    some.wait_until(lambda: some.log().count("No space left on device") >= 4, "lines")
    assert process.poll() is None
    connection.execute("drop table filler")
    some.wait_until(
        lambda: value(connection, "select count(*) from effect where n >= 0") >= len(QUEUES) * EACH,
        "all to be done",
        60,
    )

    query = "select n, count(*), max(attempt) from effect where n >= 0 group by n order by n"
    assert rows(connection, query) == [(n, 1, 1) for n in range(len(QUEUES) * EACH)]
    assert value(connection, "select count(*) from sluice.dead_letter") == 0
