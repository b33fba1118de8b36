"""The short form of `bench --workload endurance`: killed and resumed, with a crash restart in each slice.

Throughput and latency are not judged here, as other tests run beside it. All that grows is: a table that is planted
without a cleaner is found, and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from bench.endurance import parts
from bench.endurance.sampling import read_samples

from pgsluice.embedded import EmbeddedServer
from support import value, wait_until
from support.processes import kill

ROOT = Path(__file__).parents[2]
SIZES = {
    "slice_seconds": 30,
    "sample_seconds": 1,
    "endurance_backlog": 20_000,
    "endurance_batch": 1_000,
    "retained_messages": 100_000,
    "retained_partition": 20_000,
    "log_rotation_seconds": 5,
    "maintain_seconds": 1,
    "naptime_seconds": 1,
    "xids_before_freeze": 100,
}
PLANTED = """
create table sluice.planted (number bigint);
create function sluice.plant() returns trigger language plpgsql
as 'begin insert into sluice.planted select generate_series(1, 200); return null; end';
create trigger plant after insert on endurance.receipt execute function sluice.plant()
"""
SAMPLES = 24
NOISY = ("messages a second", "p99 of a claim, ms", "p99 of a tick, ms")


@pytest.fixture
def folder(servers_folder: Path) -> Iterator[Path]:
    """Return a folder for a run that the server's user can enter; stop its servers."""
    path = Path(tempfile.mkdtemp(dir=servers_folder))
    path.chmod(0o755)
    yield path
    for data in path.glob("*/data"):
        EmbeddedServer(data).stop("immediate")


def command(part: str, folder: Path) -> list[str]:
    options = [f"--option={name}={number}" for name, number in SIZES.items()]
    return [
        *(sys.executable, "-m", "bench", "--workload", "endurance", "--question", part),
        *("--folder", str(folder), "--out", str(folder / "out"), *options),
    ]


def kill_a_slice(part: str, folder: Path) -> None:
    """Start a slice, and kill all its processes and the server while messages are sent and handled."""
    with (folder / "killed").open("w") as output:
        process = subprocess.Popen(
            command(part, folder), cwd=ROOT, stdout=output, stderr=output, start_new_session=True
        )
    samples = folder / part / "samples.jsonl"
    try:
        wait_until(
            lambda: process.poll() is not None or any(s.done > 0 for s in read_samples(samples)),
            "the first messages to be done",
            150,
        )
        assert process.poll() is None, (folder / "killed").read_text()
        postmaster = EmbeddedServer(folder / part / "data").found()
        assert postmaster is not None
        os.kill(postmaster.pid, signal.SIGKILL)
    finally:
        kill(process)


def plant(server: EmbeddedServer) -> None:
    """Plant a table that grows with every batch that is sent, and that no maintenance cleans."""
    server.start()
    with psycopg.connect(server.url()) as connection:
        for statement in PLANTED.split(";\n"):
            connection.execute(statement)
    server.stop()


def finish(part: str, folder: Path) -> dict[str, Any]:
    """Run slices until there are enough samples, one on an idle machine; return the contents of the result file."""
    while True:
        done = subprocess.run(
            command(part, folder), cwd=ROOT, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if len(read_samples(folder / part / "samples.jsonl")) >= SAMPLES:
            break
    result = max((folder / "out").glob(f"*-endurance-{part}.json"))
    found: dict[str, Any] = json.loads(result.read_text())
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", ["archive", "log"])
def test_a_killed_run_continues_loses_nothing_and_finds_only_what_grows(part, folder):
    server = EmbeddedServer(folder / part / "data")
    kill_a_slice(part, folder)
    plant(server)

    report = finish(part, folder)

    for event in ("crash_at_s", "held_s"):
        assert any(finished.get(event, 0) > 0 for finished in report["slices"])
    server.start()
    with psycopg.connect(server.url()) as connection:
        sent = value(connection, "select sum(events) from endurance.receipt where who = 'sent'")
        events, total = connection.execute(
            "select sum(events), sum(total) from endurance.receipt where who = 'first'"
        ).fetchone()
        left = value(connection, "select coalesce(sum(queue_length), 0) from pgmq.metrics_all()")
    assert report["done"] == sent > 0
    assert left == 0
    if part == "log":
        assert (events, total) == (sent, sent * (sent + 1) / 2)

    findings = {finding["question"]: finding for finding in report["findings"]}
    missed = {name for name, finding in findings.items() if finding["reached"] is False}
    grown = {name.partition(",")[0] for name in missed.difference(NOISY)}
    # A run of a minute ends within the first rotations, so segments and the disk still fill.
    rotated = {name for name in grown if "_#" in name} | {"disk"}
    assert grown - rotated == {"sluice.planted"}, missed
    age = findings["age of transaction ids, largest and at the end"]
    # The set-up made it 199,999,900.
    assert age["last"] < 1_000_000, "autovacuum did not freeze"


@pytest.mark.slow
def test_probe_goes_on_after_a_claim_that_another_session_held_up(database_18):
    """A backend of a server that is killed may keep the lock of the group for seconds."""
    with database_18.connect() as connection, database_18.connect(autocommit=False) as holder:
        log, group = parts.NAME, parts.GROUP
        connection.execute("select pgq.create_queue(%s)", (log,))
        connection.execute("select sluice.create_group(%s, %s)", (log, group))
        holder.execute("select sluice.claim(%s, %s)", (log, group))
        probe = subprocess.Popen(
            [sys.executable, "-m", "bench.endurance.child", "probe", '{"part": "log"}'],
            cwd=ROOT,
            env={**os.environ, "PGSLUICE_DSN": database_18.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert "GroupBusyError" in probe.stderr.readline()
            holder.rollback()
            assert json.loads(probe.stdout.readline())[0] == "claim"
            probe.terminate()
            assert probe.wait(30) == 0
        finally:
            probe.kill()
            probe.communicate()
