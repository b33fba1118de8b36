"""The sync clients are the async ones, word for word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pgsluice import (
    AsyncEventLog,
    AsyncSchedules,
    AsyncTableQueue,
    AsyncWorkQueue,
    EventLog,
    Schedules,
    TableQueue,
    WorkQueue,
)

ROOT = Path(__file__).parents[2]


def test_the_sync_clients_are_what_the_generator_writes():
    answer = subprocess.run(
        [sys.executable, "tools/sync_from_async.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize(
    ("sync", "asynchronous"),
    [
        (WorkQueue, AsyncWorkQueue),
        (TableQueue, AsyncTableQueue),
        (EventLog, AsyncEventLog),
        (Schedules, AsyncSchedules),
    ],
)
def test_both_have_the_same_documented_methods(sync, asynchronous):
    def public(kind):
        return {name: member.__doc__ for name, member in vars(kind).items() if name[0] != "_"}

    assert public(sync) == public(asynchronous)
    assert all(public(sync).values())
