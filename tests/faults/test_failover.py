"""Failover to a promoted standby, and workers that are connected to a standby."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import psycopg
import pytest

from faults.workers import Workers
from pgsluice import App, Context, Worker, WorkQueue, schema
from pgsluice.embedded import EmbeddedServer
from support import rows, value
from support.runtime import until
from support.standby import either, follow, promote, remove

QUEUES = ("threads", "loop", "held")
EACH = 30
# A crash of the server loses nothing that the operating system has in its cache;
# commits wait for the standby.
STANDBY = (
    "the server is a standby, which is read-only; connect to the primary, or list all servers in the DSN and add "
    "target_session_attrs=read-write; retry in"
)
OPTIONS = {"fsync": "off", "full_page_writes": "off", "jit": "off", "synchronous_commit": "on"}


@pytest.fixture(scope="module")
def pair(servers_folder):
    """A primary, with the schemas and queues in it, and its synchronous standby."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o755)
    primary, standby = (
        EmbeddedServer(folder / name, options=OPTIONS) for name in ("first", "second")
    )
    try:
        primary.start()
        with psycopg.connect(primary.url(), autocommit=True) as connection:
            schema.install(connection)
            connection.execute("create table effect (n bigint, attempt integer)")
            for name in QUEUES:
                WorkQueue(connection).create(name)
        follow(primary, standby)
        yield primary, standby
    finally:
        remove(primary, standby)


@pytest.mark.slow
async def test_a_worker_at_a_standby_names_it_and_finds_the_primary_among_several_servers(
    pair, caplog
):
    primary, standby = pair
    handled = []

    async def handle(payload, context: Context):
        async with context.transaction():
            handled.append(payload)

    workers = []
    for url in (standby.url(), either(standby, primary)):
        app = App(url, name="tests")
        app.handler("loop", name="tested")(handle)
        workers.append(Worker(app))
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    with psycopg.connect(primary.url(), autocommit=True) as connection:
        WorkQueue(connection).send("loop", 1)
    await until(lambda: handled == [1], "the worker to find the primary")
    for worker in workers:
        worker.stop()
    async with asyncio.timeout(30):
        await asyncio.gather(*tasks)

    lines = [line for line in caplog.messages if "ReadOnlyError" in line]
    assert "read-only transaction" in lines[0] or "during recovery" in lines[0]
    assert "add target_session_attrs=read-write" in lines[0]


def test_workers_continue_at_the_promoted_standby_and_write_each_effect_once(pair, tmp_path):
    """A second worker has waited at the standby since its start."""
    primary, standby = pair
    with psycopg.connect(primary.url(), autocommit=True) as connection:
        for number, name in enumerate(QUEUES):
            numbers = range(number * EACH, (number + 1) * EACH)
            WorkQueue(connection).send_batch(name, [{"n": n, "seconds": 0.02} for n in numbers])
    folder = tmp_path / "waiting"
    folder.mkdir()

    with (
        Workers(standby.url(), folder, queues=",".join(QUEUES)) as waiting,
        Workers(either(primary, standby), tmp_path, queues=",".join(QUEUES)) as some,
    ):
        process, other = some.start(), waiting.start()
        some.wait_until(
            lambda: len(some.lines("done")) > EACH // 2, "half of a queue to be handled"
        )
        waiting.wait_until(lambda: STANDBY in waiting.log(), "the warning about the standby")
        assert other.poll() is None
        promote(primary, standby)
        with psycopg.connect(standby.url(), autocommit=True) as connection:
            waiting.wait_until(
                lambda: "worker started" in waiting.log(), "the waiting worker to start"
            )
            WorkQueue(connection).send("threads", {"n": len(QUEUES) * EACH})
            for name in QUEUES:
                some.wait_until(
                    lambda name=name: value(connection, f"select count(*) from pgmq.q_{name}") == 0,
                    f"queue {name} to be empty",
                    60,
                )
            written = [n for (n,) in rows(connection, "select n from effect order by n")]
            assert value(connection, "select count(*) from sluice.dead_letter") == 0
        assert (process.poll(), other.poll()) == (None, None)

    assert written == list(range(len(QUEUES) * EACH + 1))
    done = {line["n"] for each in (some, waiting) for line in each.lines("done")}
    assert done <= set(written)
