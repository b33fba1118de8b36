"""Backlog of a sharded log drained by a standalone Spark cluster: cost, growth, memory, skew and a crash."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import larger_cluster
from bench.cpu import server_cpu_s
from bench.goal import Goal
from bench.place import Place
from bench.sharded_log import LOG, Sums, expected, fill, free_segments, in_lake, make_shards, reset
from bench.standalone import DEADLINE_S, Cluster, Machine, Sample, Sampler, standalone
from bench.systems.pgsluice import Pgsluice
from pgsluice.errors import SluiceError

TITLE = "Backlog of a sharded log drained into Delta by two Spark workers of one core each"
UNIT = "events a second, or micro-batches a second"
SYSTEMS = [Pgsluice()]
REPEATS = 1
WARM_UP = False  # a run takes minutes
OPTIONS = {
    "spark_size_few": 1_000_000,
    "spark_size_some": 5_000_000,
    "spark_size_many": 100_000_000,
    "spark_size_round": 20_000_000,  # filled and drained at a time, which bounds the disk
    "spark_size_special": 5_000_000,  # of the skewed backlog, and of that with a killed executor
    "spark_size_shards": 8,
    "spark_size_percent": 50,  # of the events in the first shard, in the skewed backlog
    "spark_size_rows": 200_000,  # per micro-batch
    "spark_size_batches": 30,  # micro-batches of one event per shard
}
NOTES: list[str] = []
DETAILS: dict[str, Any] = {}
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
}
DRIVER, EXECUTORS, SERVER = "driver", "executors", "server"
SAMPLES_KEPT = 60
COMPUTED = "computed, not measured"


@dataclass(frozen=True)
class Question:
    """Backlog, or micro-batches of one event per shard.

    Attributes:
        name: Label in the results table.
        size: Key of `OPTIONS` with the number of events.
        is_skewed: True if the first shard has `spark_size_percent` of the events; else all have equal numbers.
        is_killed: True if an executor is killed when half of the events are in the lake.
        shards: Number of shards; None for that of `OPTIONS`.
    """

    name: str
    size: str = "spark_size_special"
    is_skewed: bool = False
    is_killed: bool = False
    shards: int | None = None


FEW, SOME, MANY = "backlog, few events", "backlog, some events", "backlog, most events"
SKEWED, KILLED = "backlog, half of it in one shard", "backlog, an executor killed half-way"
BATCH = "micro-batch of one event per shard, shards: {}"
QUESTIONS = (
    Question(FEW, "spark_size_few"),
    Question(SOME, "spark_size_some"),
    Question(SKEWED, is_skewed=True),
    Question(KILLED, is_killed=True),
    *(Question(BATCH.format(count), "spark_size_batches", shards=count) for count in (1, 2, 4, 8)),
    Question(MANY, "spark_size_many"),
)
GOALS = {
    MANY: Goal(0.9, of=SOME, why_missed="the cost of an event grows with the table or the log"),
    SKEWED: Goal(
        0.8, of=SOME, why_missed="the tasks of the large shard determine the time of a micro-batch"
    ),
}


def measure(place: Place, question: Question) -> float:
    """Drain a backlog, or write micro-batches of one event per shard.

    Returns:
        Events per second between the first and the last commit; micro-batches per second.

    Raises:
        SluiceError: The disk is too small for a round, or the pipeline failed.
        RuntimeError: The lake does not have exactly the events of the log.
    """
    shards = make_shards(place, question.shards or OPTIONS["spark_size_shards"])
    # Not in the folder of the server, which another user may own.
    folder = Path(tempfile.mkdtemp(prefix="pgsluice-bench-size-"))
    try:
        with running_cluster(folder) as (cluster, driver):
            if question.shards is not None:
                return micro_batches(place, question, shards, cluster, driver)
            return backlog(place, question, shards, cluster, driver)
    finally:
        shutil.rmtree(folder)


@contextmanager
def running_cluster(folder: Path) -> Iterator[tuple[Cluster, Machine]]:
    """Start a master and two workers; yield the cluster, and the machine of a driver."""
    from pgsluice.spark.java import find_java

    java_home = find_java().home
    master, one, two, driver = (
        Machine(name, folder, java_home) for name in ("master", "worker-1", "worker-2", "driver")
    )
    with standalone(master, (one, two), memory="1200m") as cluster:
        yield cluster, driver


def backlog(
    place: Place, question: Question, shards: Mapping[str, str], cluster: Cluster, driver: Machine
) -> float:
    """Fill and drain a backlog in rounds, and compare the lake with the log at the end."""
    reset(shards)
    lake, total = driver.folder / "lake", OPTIONS[question.size]
    in_log: dict[str, Sums] = {}
    rounds: list[dict[str, Any]] = []
    written = 0
    while written < total:
        count = min(OPTIONS["spark_size_round"], total - written)
        events = share_out(count, list(shards), question.is_skewed)
        fill_s = fill(place, shards, events, OPTIONS["spark_size_rows"] // len(shards))
        in_log = expected(shards, in_log)
        measured = drain(place, question, shards, cluster, driver, written + count)
        written += count
        rounds.append({"events": count, "fill_s": round(fill_s, 1), **measured})
        free_segments(shards)
        DETAILS[question.name] = {"events": written, "events_by_shard": events, "rounds": rounds}
        note(question, written, rounds)
        place.save()
    found = in_lake(lake)
    if found != in_log:
        raise RuntimeError(
            f"the lake has {found} and the log had {in_log} (count, sums of numbers)"
        )
    DETAILS[question.name]["exact"] = {name: asdict(sums) for name, sums in found.items()}
    compute()
    return sum(one["timed_events"] for one in rounds) / sum(one["timed_s"] for one in rounds)


def share_out(count: int, shards: list[str], is_skewed: bool) -> dict[str, int]:
    """Divide events among shards."""
    first = count // len(shards)
    if is_skewed:
        first = count * OPTIONS["spark_size_percent"] // 100
    if len(shards) == 1:
        return {shards[0]: count}
    rest, left = divmod(count - first, len(shards) - 1)
    return {
        name: first if number == 0 else rest + (number <= left)
        for number, name in enumerate(shards)
    }


def drain(
    place: Place,
    question: Question,
    shards: Mapping[str, str],
    cluster: Cluster,
    driver: Machine,
    upto: int,
) -> dict[str, Any]:
    """Run the pipeline until the lake has these events; return its costs."""
    lake = driver.folder / "lake"
    before = commits(lake)
    has_before = sum(rows for _, rows in before)
    config = write_config(driver, shards)
    command = [sys.executable, "-m", "pgsluice", "pipeline", "run", "backlog", "--config", str(config)]  # fmt: skip
    begin = time.monotonic()
    with driver.running(*command, "--once", "--master", cluster.url) as running:
        killer = None
        if question.is_killed:
            half = (has_before + upto) // 2
            killer = threading.Thread(target=kill_executor, args=(cluster, lake, half, running))
            killer.start()
        with Sampler(
            {DRIVER: [running], EXECUTORS: cluster.workers},
            {SERVER: lambda: server_cpu_s(place.server)},
        ) as sampler:
            code = running.wait(timeout=3 * DEADLINE_S + (upto - has_before) / 1000)
        if killer is not None:
            killer.join()
            if "killed" not in DETAILS:
                raise RuntimeError("the pipeline ended before an executor was killed")
    took_s = time.monotonic() - begin
    new = commits(lake)[len(before) :]
    if code != 0 or sum(rows for _, rows in new) != upto - has_before:
        raise SluiceError(
            f"the pipeline ended with code {code} after {sum(rows for _, rows in new)} of {upto - has_before} "
            f"events: {driver.log.read_text()[-3000:]}"
        )
    # The start of Java and of the executors ends with the first commit.
    samples = sampler.since(new[0][0])
    timed = sum(rows for _, rows in new[1:])
    spent = {name: cpu_s - samples[0].cpu_s[name] for name, cpu_s in samples[-1].cpu_s.items()}
    return {
        "process_s": round(took_s, 1),
        "micro_batches": len(new),
        "timed_events": timed,
        "timed_s": round(new[-1][0] - new[0][0], 2),
        "cpu_us_per_event": {
            name: round(cpu_s / max(timed, 1) * 1e6, 2) for name, cpu_s in spent.items()
        },
        "start_cpu_s": {name: round(cpu_s, 1) for name, cpu_s in samples[0].cpu_s.items()},
        "memory_mb": memory(samples),
        "load": os.getloadavg()[0],
    }


def write_config(driver: Machine, shards: Mapping[str, str]) -> Path:
    """Write the configuration file of the pipeline."""
    spark = [f"{name.removeprefix('spark.')} = {json.dumps(value)}" for name, value in CONF.items()]
    lines = [
        "[spark]", *spark, "[backlog]", 'kind = "events"', f'log = "{LOG}"', 'lake = "lake"',
        'checkpoint = "checkpoint"', f"max_rows_per_trigger = {OPTIONS['spark_size_rows']}",
        "[backlog.shards]", *(f"{name} = {json.dumps(dsn)}" for name, dsn in shards.items()),
    ]  # fmt: skip
    path = driver.folder / "pipelines.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def commits(lake: Path) -> list[tuple[float, int]]:
    """Return the time and the number of rows of each commit with rows of a Delta table."""
    found = []
    for path in sorted((lake / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        rows = sum(json.loads(a["add"]["stats"])["numRecords"] for a in actions if "add" in a)
        if rows:
            found.append((path.stat().st_mtime, rows))
    return found


def kill_executor(
    cluster: Cluster, lake: Path, rows: int, running: subprocess.Popen[bytes]
) -> None:
    """Kill an executor as soon as the lake has these rows."""
    while running.poll() is None:
        if sum(count for _, count in commits(lake)) >= rows:
            victim = cluster.executors()[0]
            os.kill(victim, signal.SIGKILL)
            print(f"  killed executor {victim}")
            DETAILS["killed"] = {"pid": victim, "rows_in_lake": rows}
            return
        time.sleep(0.2)


def memory(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the resident memory of driver and executors in MB: medians of the quarters of the time, and samples."""
    found: dict[str, Any] = {}
    for name in (DRIVER, EXECUTORS):
        mb = [round(sample.resident_bytes[name] / 1e6) for sample in samples]
        quarter = -(-len(mb) // 4)
        found[name] = {
            "quarters": [
                statistics.median(mb[first : first + quarter])
                for first in range(0, len(mb), quarter)
            ],
            "peak": max(mb),
            "samples": mb[:: -(-len(mb) // SAMPLES_KEPT)],
        }
    return found


def note(question: Question, written: int, rounds: list[dict[str, Any]]) -> None:
    """Print the last round, and keep a description of all of them in the notes."""
    last = rounds[-1]
    cpu = ", ".join(f"{name} {us}" for name, us in last["cpu_us_per_event"].items())
    quarters = last["memory_mb"][DRIVER]["quarters"]
    rate = last["timed_events"] / last["timed_s"] if last["timed_s"] else 0.0
    first = ""
    if len(rounds) > 1:
        of_first = rounds[0]["cpu_us_per_event"].items()
        first = f" (in the first round: {', '.join(f'{name} {us}' for name, us in of_first)})"
    said = (
        f"{question.name}: {written:,} events, the last {last['events']:,} with {rate:,.0f} a second and us of CPU per "
        f"event: {cpu}{first}; memory of the driver in the quarters of the run "
        f"{', '.join(f'{mb:,.0f}' for mb in quarters)} MB, of the executors at most "
        f"{last['memory_mb'][EXECUTORS]['peak']:,} MB"
    )
    print(f"  {said}; load {last['load']:.1f}")
    NOTES[:] = [text for text in NOTES if not text.startswith(question.name)] + [said]


def micro_batches(
    place: Place, question: Question, shards: Mapping[str, str], cluster: Cluster, driver: Machine
) -> float:
    """Time micro-batches of one event per shard."""
    reset(shards)
    arguments = {
        "master": cluster.url,
        "conf": CONF,
        "log": LOG,
        "lake": str(driver.folder / "lake"),
        "shards": dict(shards),
        "batches": OPTIONS["spark_size_batches"],
    }
    with driver.running(
        sys.executable, "-m", "bench.micro_batches", json.dumps(arguments)
    ) as running:
        code = running.wait(timeout=2 * DEADLINE_S)
    output = driver.log.read_text()
    results = [line for line in output.splitlines() if line.startswith("result ")]
    if code != 0 or not results:
        raise SluiceError(f"the micro-batches failed: {output[-3000:]}")
    parts = json.loads(results[0].removeprefix("result "))
    DETAILS[question.name] = {"shards": question.shards, "ms": parts}
    text = ", ".join(f"{name} {ms:.0f}" for name, ms in parts.items())
    NOTES.append(f"{question.name}: medians in ms: {text}")
    print(f"  {NOTES[-1]}")
    compute()
    place.save()
    return 1000 / float(parts["triggerExecution"])


def compute() -> None:
    """Compute the throughput of larger clusters, once the costs are measured."""
    of_batches = {
        one["shards"]: float(one["ms"]["triggerExecution"])
        for name, one in DETAILS.items()
        if name.startswith(BATCH.partition("{")[0])
    }
    largest = next((DETAILS[name] for name in (MANY, SOME, FEW) if name in DETAILS), None)
    if largest is None or not of_batches:
        return
    cpu_us = [one["cpu_us_per_event"] for one in largest["rounds"]]
    costs = larger_cluster.Costs(
        statistics.median(one[EXECUTORS] for one in cpu_us),
        statistics.median(one[SERVER] for one in cpu_us),
        *larger_cluster.overhead(of_batches),
    )
    results = list(larger_cluster.computed(costs))
    DETAILS[COMPUTED] = {
        "assumptions": larger_cluster.ASSUMPTIONS,
        "costs": asdict(costs),
        "clusters": results,
    }
    NOTES[:] = [text for text in NOTES if not text.startswith(COMPUTED)]
    NOTES.append(f"{COMPUTED}, assuming: {'; '.join(larger_cluster.ASSUMPTIONS)}")
    NOTES.extend(
        f"{COMPUTED}: {one['executor_cores']} executor cores, {one['server_cores']} server cores, {one['shards']} "
        f"shards, micro-batches of {one['rows_per_micro_batch']:,}: {one['events_per_s']:,} events a second"
        for one in results
    )
    for text in NOTES[-len(results) - 1 :]:
        print(f"  {text}")
