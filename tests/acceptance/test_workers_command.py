"""`pgsluice workers`: real worker processes, running, killed and stopped."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from pgsluice import Operations, WorkQueue
from pgsluice.cli.main import main
from support import wait_until
from support.processes import running

APP = """
import asyncio
from pgsluice import App

app = App(name="shop")

@app.handler("orders", lease_s=60)
async def pack(payload: dict) -> None:
    await asyncio.sleep(600)
"""


@pytest.fixture
def workers(database_18, capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["workers", *arguments, "--dsn", database_18.url])
        printed = capsys.readouterr()
        assert ended.value.code == 0, printed
        return printed.out

    return run


@pytest.mark.slow
def test_worker_is_listed_as_live_then_lost_when_it_is_killed(workers, database_18, tmp_path):
    (tmp_path / "shop.py").write_text(APP)
    assert workers() == "no workers\n"
    with database_18.connect() as connection:
        work = WorkQueue(connection)
        work.create("orders")
        msg_id = work.send("orders", {})
        command = [sys.executable, "-m", "pgsluice", "worker", "run", "shop:app"]
        with running(command, tmp_path, PGSLUICE_DSN=database_18.url):
            wait_until(
                lambda: any(
                    one.has_session and one.running for one in Operations(connection).list_workers()
                ),
                "the worker to report its session and its call",
                60,
            )
            (listed,) = json.loads(workers("--json"))
            assert (listed["app"], listed["is_live"]) == ("shop", True)
            assert listed["sources"] == ["queue orders"]
            printed = workers()
            assert " live " in printed
            assert f"pack {msg_id} of queue orders since 20" in printed

            os.kill(listed["pid"], signal.SIGKILL)

            wait_until(
                lambda: any(not one.is_live for one in Operations(connection).list_workers()),
                "the loss",
                30,
            )
            assert " lost " in workers()
