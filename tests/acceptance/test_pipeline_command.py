"""`pgsluice pipeline run` as a process: killed, disconnected and stopped."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from pgsluice import WorkQueue
from support import value, wait_until
from support.processes import running

ROWS = 6000
COMMAND = [
    *(sys.executable, "-m", "pgsluice", "pipeline", "run", "all"),
    *("--config", "pipelines.toml", "--log-format", "json"),
]
CONFIG = """
[defaults]
every_s = 0.1

[orders]
kind = "ingest"
files = "inbox"
queue = "orders"
batch_rows = 20

[nowhere]
kind = "ingest"
files = "inbox"
queue = "nowhere"
"""


def log_of(folder: Path) -> list[dict]:
    """Return the log's lines, without lines truncated by a kill."""
    lines = (folder / "log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


@pytest.mark.slow
def test_every_row_is_added_once_whatever_happens(database_18, tmp_path):
    (tmp_path / "inbox").mkdir()
    (tmp_path / "pipelines.toml").write_text(CONFIG)
    texts = [f'{{"n": {n}}}' for n in range(ROWS)]
    (tmp_path / "inbox" / "orders.jsonl").write_text("\n".join(texts))
    dsn = make_conninfo(database_18.url, password="sesame", application_name="under-test")

    with database_18.connect() as connection:
        WorkQueue(connection).create("orders")

        def count() -> int:
            return value(connection, "select count(*) from pgmq.q_orders")

        with running(COMMAND, tmp_path, PGSLUICE_DSN=dsn) as process:
            wait_until(lambda: count() > 0, "the first rows", 60)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert count() < ROWS

        before = count()
        with running(COMMAND, tmp_path, PGSLUICE_DSN=dsn) as process:
            wait_until(lambda: count() > before, "the pipeline to continue", 60)
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'under-test'"
            )
            wait_until(lambda: count() == ROWS, "all rows", 120)
            os.killpg(process.pid, signal.SIGTERM)
            assert process.wait(60) == 3  # as one of the two pipelines failed

        found = connection.execute("select message::text from pgmq.q_orders order by msg_id")
        assert [text for (text,) in found] == texts

    levels = [(line["level"], line["pipeline"]) for line in log_of(tmp_path) if "pipeline" in line]
    assert ("error", "nowhere") in levels
    assert ("warning", "orders") in levels
    assert ("info", "orders") in levels
    assert "sesame" not in (tmp_path / "log").read_text()
