"""Generated clients: they equal the calls, and editors and type checkers know their types."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pgsluice import (
    AsyncEventLog,
    AsyncInbox,
    AsyncSchedules,
    AsyncShareGroup,
    AsyncTableQueue,
    AsyncWorkQueue,
    EventLog,
    Inbox,
    Schedules,
    ShareGroup,
    TableQueue,
    WorkQueue,
)
from pgsluice.client.calls import deduplication

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool", ["clients_from_calls", "sync_from_async"])
def test_the_clients_are_what_the_generators_write(tool):
    result = subprocess.run(
        [sys.executable, f"tools/{tool}.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("sync", "asynchronous"),
    [
        (WorkQueue, AsyncWorkQueue),
        (TableQueue, AsyncTableQueue),
        (EventLog, AsyncEventLog),
        (ShareGroup, AsyncShareGroup),
        (Schedules, AsyncSchedules),
        (Inbox, AsyncInbox),
    ],
)
def test_both_have_the_same_documented_methods(sync, asynchronous):
    def public(kind):
        return {name: member.__doc__ for name, member in vars(kind).items() if name[0] != "_"}

    expected = {
        name: text.replace("contextlib.aclosing", "contextlib.closing")
        for name, text in public(asynchronous).items()
    }
    assert public(sync) == expected
    assert all(expected.values())


PROGRAM = """
import psycopg
from psycopg_pool import AsyncConnectionPool

from pgsluice import AsyncEventLog, AsyncTableQueue, EventLog, ShareGroup, TableQueue, WorkQueue


def sync(connection: psycopg.Connection) -> None:
    queue = WorkQueue(connection)
    reveal_type(queue.send("q", {"a": 1}, delay=5))
    reveal_type(queue.read("q", vt=30, qty=2))
    reveal_type(queue.set_vt("q", 1, 30))
    reveal_type(TableQueue(connection).drop_queue("q"))
    reveal_type(EventLog(connection).stream_batch_events(1))
    reveal_type(ShareGroup(connection, "log", "group").claim(10, lease_s=5))
    reveal_type(ShareGroup(connection, "log", "group").create(start="latest", lease_s=30))
    queue.read("q", "30")
    queue.send("q", 1, {})


async def asynchronous(pool: AsyncConnectionPool) -> None:
    reveal_type(await AsyncTableQueue(pool).metrics_all())
    reveal_type(await AsyncEventLog(pool).insert_many("log", []))
    reveal_type(AsyncEventLog(pool).stream_batch_events(1))
"""
ANSWERS = [
    'note: Revealed type is "int"',
    'note: Revealed type is "list[pgsluice.client.records.Message]"',
    'note: Revealed type is "pgsluice.client.records.Message | None"',
    'note: Revealed type is "bool"',
    'note: Revealed type is "typing.Generator[pgsluice.client.log_records.Event, None, None]"',
    'note: Revealed type is "list[pgsluice.client.group_records.ClaimedEvent]"',
    'note: Revealed type is "bool"',
    'error: Argument 2 to "read" of "WorkQueue" has incompatible type "str"; expected "int"',
    'error: Too many positional arguments for "send" of "WorkQueue"',
    'note: Revealed type is "list[pgsluice.client.records.QueueMetrics]"',
    'note: Revealed type is "int"',
    'note: Revealed type is "typing.AsyncGenerator[pgsluice.client.log_records.Event, None]"',
]


@pytest.mark.slow
def test_a_strict_type_checker_knows_arguments_and_results(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    result = subprocess.run(
        [*(sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--follow-imports=silent"),
         *("--cache-dir", str(tmp_path / "cache"), str(program))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )  # fmt: skip

    lines = [line for line in result.stdout.splitlines() if re.search(r": error: |Revealed", line)]
    found = [re.sub(r"^[^ ]+ |  \[[a-z-]+\]$", "", line) for line in lines]
    assert found == ANSWERS, result.stdout + result.stderr


def test_help_shows_the_signature_and_the_docstring_of_a_call():
    text = pydoc.plain(pydoc.render_doc(WorkQueue.send))

    assert "send(self, queue_name: 'str', message: 'Any', *, headers: 'Any' = None" in text
    assert inspect.getdoc(deduplication.send).splitlines()[0] == "Send one message."
    assert all(line.strip() in text for line in inspect.getdoc(deduplication.send).splitlines())
