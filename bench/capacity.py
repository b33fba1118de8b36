"""Compute how far one server goes from measured constants: `python -m bench.capacity` writes the tables of the page."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.endurance import plots
from bench.wide.costs import IDLE
from bench.workloads import constants, spark_size

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "how-far-it-goes.md"
RESULTS = Path(__file__).parent / "results"
DAY_S = 86_400
KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12

SEND, SEND_BATCH = "send, 1 per call", "send_batch, 100 per call"
DELETE, ARCHIVE = "read and delete, 100 per call", "read and archive, 100 per call"
INSERT, CONSUME = (
    "insert_events, 100 per call",
    f"batch of {constants.BATCH:,} events to one consumer",
)


@dataclass(frozen=True)
class Cost:
    """Cost of one message or event.

    Attributes:
        cpu_us: CPU time of the server in microseconds.
        wal_bytes: WAL in bytes.
        disk_bytes: Size of the row with its index entries in bytes; 0 if none is added.
    """

    cpu_us: float
    wal_bytes: float
    disk_bytes: float = 0.0


class Constants:
    """Measured constants.

    Attributes:
        report: The result file of the workload `constants`.
        lake: The result file of the workload `spark_size`.
        wide: That of the workload `wide`.
        runs: Those of the parts of the workload `endurance`.
    """

    def __init__(
        self,
        report: Mapping[str, Any],
        lake: Mapping[str, Any],
        wide: Mapping[str, Any] | None = None,
        runs: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Use these result files."""
        self.report, self.lake, self.wide, self.runs = report, lake, wide or {}, runs
        self._rates = {
            each["question"]: next(iter(each["median"].values())) for each in report["results"]
        }

    @classmethod
    def newest(cls, folder: Path = RESULTS) -> Constants:
        """Read the newest result files of a folder."""
        return cls(
            *(
                json.loads(max(folder.glob(f"*-{name}.json")).read_text(encoding="utf-8"))
                for name in ("constants", "spark_size", "wide")
            ),
            runs=plots.newest(folder),
        )

    def each(self, flow: str, size: int, unit: str) -> float:
        """Return the units that one message costs: seconds of CPU, or megabytes."""
        return 1 / float(self._rates[constants.Question(flow, size, unit).name])

    def cost(self, flow: str, payload_bytes: int) -> Cost:
        """Return the cost of a message with a payload of a size: linear between and beyond the measured sizes."""
        low, high = constants.SIZES
        part = (payload_bytes - low) / (high - low)

        def at(unit: str, scale: float) -> float:
            if constants.Question(flow, low, unit).name not in self._rates:
                return 0.0
            least, most = self.each(flow, low, unit), self.each(flow, high, unit)
            return scale * (least + part * (most - least))

        return Cost(at(constants.CPU, 1e6), at(constants.WAL, MB), at(constants.DISK, MB))

    def worker_us(self, flow: str, unit: str = constants.WORKER_CPU) -> float:
        """Return microseconds of CPU per message of a worker, or of its server."""
        return self.each(flow, constants.SIZES[0], unit) * 1e6

    def lake_us(self, of: str) -> float:
        """Return microseconds of CPU per event on its way to the lake: of `executors`, `driver` or `server`."""
        details = self.lake["details"]
        rounds = (details.get(spark_size.MANY) or details[spark_size.SOME])["rounds"]
        events = sum(one["events"] for one in rounds)
        return sum(one["cpu_us_per_event"][of] * one["events"] for one in rounds) / events


@dataclass(frozen=True)
class Server:
    """Server of an example: what it has.

    Attributes:
        cores: CPU cores, each as fast as those of the measurement.
        wal_mb_s: WAL that its disk and its replicas take, megabytes per second.
        disk_tb: Size of its disk, terabytes.
    """

    cores: int = 16
    wal_mb_s: float = 100.0
    disk_tb: float = 2.0


@dataclass(frozen=True)
class Row:
    """Computed line of an example.

    Attributes:
        what: Label.
        formula: How it is computed.
        value: The result.
        unit: Its unit.
        limit: What the server has of it; None: it is no resource of the server.
    """

    what: str
    formula: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def used(self) -> float:
        """Share of the limit, 0 without one."""
        return self.value / self.limit if self.limit else 0.0


def queue_rows(
    known: Constants,
    *,
    rate: float,
    payload_bytes: int,
    send: str = SEND,
    keep_days: float = 7,
    server: Server = Server(),
    worker: str = constants.WORKER,
) -> list[Row]:
    """Compute a work queue whose messages are archived for some days, or deleted with 0 days.

    Args:
        known: The constants.
        rate: Messages per second.
        payload_bytes: Size of a payload.
        send: How they are sent: `SEND` or `SEND_BATCH`.
        keep_days: Retention of the archive.
        server: The server.
        worker: The measured worker.
    """
    sending = known.cost(send, payload_bytes)
    finish = ARCHIVE if keep_days else DELETE
    finishing = known.cost(finish, payload_bytes)
    # What a worker makes the server do beyond these calls: heartbeats, starts, notifications.
    plain = known.cost(ARCHIVE, constants.SIZES[0]).cpu_us
    served_us = max(known.worker_us(worker, constants.SERVER_CPU) - plain, 0) + finishing.cpu_us
    cores = rate * (sending.cpu_us + served_us) / 1e6
    wal = rate * (sending.wal_bytes + finishing.wal_bytes) / MB
    rows = [
        Row(
            "CPU of the server",
            f"rate × ({sending.cpu_us:.0f} µs {send} + {served_us:.0f} µs for the worker)",
            cores,
            "cores",
            server.cores,
        ),
        Row("CPU of workers", f"rate × {known.worker_us(worker):.0f} µs, without the handler's own",
            rate * known.worker_us(worker) / 1e6, "cores"),
        Row("WAL", f"rate × ({sending.wal_bytes:,.0f} + {finishing.wal_bytes:,.0f} bytes)", wal, "MB/s",
            server.wal_mb_s),
    ]  # fmt: skip
    if keep_days:
        kept = rate * DAY_S * keep_days * finishing.disk_bytes / TB
        rows.append(
            Row("archive", f"rate × {keep_days:g} days × {finishing.disk_bytes:,.0f} bytes", kept, "TB",
                server.disk_tb)
        )  # fmt: skip
    waiting = rate * 3600 * sending.disk_bytes / TB
    rows.append(
        Row("queue after an hour without workers", f"rate × 3,600 s × {sending.disk_bytes:,.0f} bytes",
            waiting, "TB", server.disk_tb)
    )  # fmt: skip
    return rows


def log_rows(
    known: Constants,
    *,
    bytes_per_day: float,
    payload_bytes: int,
    servers: int = 1,
    kept_h: float = 6,
    server: Server = Server(),
) -> list[Row]:
    """Compute an event log that is exported to the lake.

    Args:
        known: The constants.
        bytes_per_day: Payloads per day, of all servers.
        payload_bytes: Size of a payload.
        servers: Number of servers that share them.
        kept_h: Hours that events stay in the log: three rotation periods.
        server: Each server.
    """
    rate = bytes_per_day / DAY_S / payload_bytes
    of_one = rate / servers
    inserting = known.cost(INSERT, payload_bytes)
    reading_us = known.lake_us(spark_size.SERVER)
    return [
        Row("events", f"{bytes_per_day / TB:g} TB / 86,400 s / {payload_bytes:,} bytes", rate, "per second"),
        Row("CPU of each server", f"rate × ({inserting.cpu_us:.1f} µs {INSERT} + {reading_us:.1f} µs for Spark)",
            of_one * (inserting.cpu_us + reading_us) / 1e6, "cores", server.cores),
        Row("WAL of each server", f"rate × {inserting.wal_bytes:,.0f} bytes", of_one * inserting.wal_bytes / MB, "MB/s",
            server.wal_mb_s),
        Row("log on each server", f"rate × {kept_h:g} h × {inserting.disk_bytes:,.0f} bytes",
            of_one * kept_h * 3600 * inserting.disk_bytes / TB, "TB", server.disk_tb),
        Row("CPU of Spark's executors", f"rate × {known.lake_us(spark_size.EXECUTORS):.1f} µs",
            rate * known.lake_us(spark_size.EXECUTORS) / 1e6, "cores"),
    ]  # fmt: skip


def first_limit(rows: list[Row]) -> Row:
    """Return the resource of the server that is used most."""
    return max(rows, key=lambda row: row.used)


# Tables of the page ---------------------------------------------------------------------------------------------------


def tables(known: Constants) -> dict[str, str]:
    """Return the generated parts of the page by name, as Markdown."""
    tenant = {"rate": 2_000, "payload_bytes": 1_000, "keep_days": 1}
    two_tb = {"bytes_per_day": 2 * TB, "payload_bytes": 1_000}
    return {
        "machine": machine(known),
        "messages": constants_table(known),
        "workers": worker_table(known),
        "messages-a-second": example(queue_rows(known, rate=5_000, payload_bytes=1_000)),
        "messages-a-second-next": example(
            queue_rows(known, rate=5_000, payload_bytes=1_000, send=SEND_BATCH, keep_days=1)
        ),
        "tenants": example(queue_rows(known, worker=constants.KEYED, **tenant)),
        "lake": example(log_rows(known, **two_tb)),
        "lake-next": example(log_rows(known, servers=4, **two_tb)),
        "backlogs": backlog_table(known),
        "clusters": cluster_table(known),
        "objects": objects_table(known),
        "runs": runs_table(known),
    }


def machine(known: Constants) -> str:
    """Name the machine, versions and commands of the measurements."""

    def command(report: dict[str, Any]) -> str:
        """Return the command, without the folders of the machine."""
        return re.sub(r" --(out|folder) \S+", "", report["command"].partition(" -m ")[2])

    return "\n".join(
        f"- `python -m {command(report)}`, {report['at'][:10]}: "
        f"{report['machine']['processor']}, {report['machine']['cores']} cores, "
        f"{report['machine']['memory_gb']:.0f} GB, PostgreSQL {report['server']['server_version']}"
        + (
            f", load {loads[0]:.1f} before"
            if (loads := report["machine"].get("load_before"))
            else ""
        )
        for report in (known.report, known.lake, known.wide, *known.runs)
    )


def constants_table(known: Constants) -> str:
    """Format the costs of each call."""
    lines = [
        "| call | payload | CPU of the server | WAL | on disk |",
        "|---|---|---|---|---|",
    ]
    for flow in constants.FLOWS:
        for size in constants.SIZES:
            cost = known.cost(flow, size)
            disk = f"{cost.disk_bytes:,.0f} B" if cost.disk_bytes else ""
            lines.append(
                f"| {flow} | {size:,} B | {cost.cpu_us:.3g} µs | {cost.wal_bytes:,.0f} B | {disk} |"
            )
    return "\n".join(lines)


def worker_table(known: Constants) -> str:
    """Format the costs of workers and of the lake."""
    lines = ["| per message or event | worker or Spark | server |", "|---|---|---|"]
    for flow in (constants.WORKER, constants.KEYED, constants.WAKEUP):
        server_us = known.worker_us(flow, constants.SERVER_CPU)
        lines.append(f"| {flow} | {known.worker_us(flow):,.0f} µs | {server_us:,.0f} µs |")
    executors, driver, server = (
        known.lake_us(of) for of in (spark_size.EXECUTORS, spark_size.DRIVER, spark_size.SERVER)
    )
    lines.append(
        f"| event to a Delta table | {executors:.1f} µs in executors, {driver:.1f} µs in the driver | {server:.1f} µs |"
    )
    return "\n".join(lines)


def backlog_table(known: Constants) -> str:
    """Format the backlogs that Spark drained."""
    lines = [
        "| backlog of eight shards | events | events per second | CPU of executors | driver's memory |",
        "|---|---|---|---|---|",
    ]
    for result in known.lake["results"]:
        name = result["question"]
        if not name.startswith("backlog"):
            continue
        rounds = known.lake["details"][name]["rounds"]
        memory_mb = max(one["memory_mb"]["driver"]["peak"] for one in rounds)
        lines.append(
            f"| {name.partition(', ')[2]} | {sum(one['events'] for one in rounds):,} | "
            f"{result['median']['pgsluice']:,.0f} | {rounds[-1]['cpu_us_per_event']['executors']:.1f} µs per event | "
            f"{memory_mb:,.0f} MB |"
        )
    return "\n".join(lines)


def cluster_table(known: Constants) -> str:
    """Format what a larger cluster would do."""
    computed = known.lake["details"]["computed, not measured"]
    lines = [
        "| executor cores | server cores | shards | rows per micro-batch | computed events per second |",
        "|---|---|---|---|---|",
        *(
            f"| {one['executor_cores']} | {one['server_cores']} | {one['shards']} | "
            f"{one['rows_per_micro_batch']:,} | {one['events_per_s']:,} |"
            for one in computed["clusters"]
        ),
        "",
        "It assumes:",
        "",
        *(f"- {text}" for text in computed["assumptions"]),
    ]
    return "\n".join(lines)


def objects_table(known: Constants) -> str:
    """Format what many objects cost."""
    lines = [
        "| many | CPU per message, of server and client | idle minute of `pgsluice maintain` |",
        "|---|---|---|",
    ]
    for name, steps in known.wide["details"].items():
        sizes = " to ".join(
            f"{int(size):,}" for size in (*steps[0]["costs"],)[:: len(steps[0]["costs"]) - 1]
        )
        # The site's search shall find the guide on poolers first.
        costs = "; ".join(
            f"{each['step']} {_of_sizes(each, 1, 'ms')}"
            for each in steps
            if each["unit"] == "message"
        ).replace("PgBouncer", "a pooler")
        idle = next(each for each in steps if each["step"] == IDLE)
        lines.append(f"| {sizes} {name} | {costs} | {_of_sizes(idle, 1e-3, 's')} |")
    return "\n".join(lines)


def _of_sizes(step: Mapping[str, Any], scale: float, unit: str) -> str:
    """Return the CPU time of a step at its smallest and its largest size."""
    first, *_, last = (cost["cpu_ms"] * scale for cost in step["costs"].values())
    return f"{first:.2g} to {last:.2g} {unit}"


def runs_table(known: Constants) -> str:
    """Format the long runs: the last tenth of each compared with the first."""
    lines = [
        "| run | messages | hours | per second, first and last tenth | p99 of a claim, of a tick | growth found |",
        "|---|---|---|---|---|---|",
    ]
    for report in known.runs:
        speed, *others = report["findings"]
        waits = [each for each in others if each["question"].startswith("p99 of")]
        latencies = "; ".join(f"{each['first']:.0f}, {each['last']:.0f} ms" for each in waits)
        grows = [
            each["question"] for each in others if each["reached"] is False and each not in waits
        ]
        hours = report["series"]["hours"][-1]
        lines.append(
            f"| {report['title']} | {report['done']:,} | {hours:.1f} | {speed['first']:,.0f}, {speed['last']:,.0f} | "
            f"{latencies} | {', '.join(grows) or 'none'} |"
        )
    return "\n".join(lines)


def example(rows: list[Row]) -> str:
    """Format an example, with its first limit."""
    lines = ["| what | formula | result | of the server |", "|---|---|---|---|"]
    first = first_limit(rows)
    for row in rows:
        used = "" if row.limit is None else f"{row.used:.0%} of {row.limit:,g} {row.unit}"
        used = f"**{used}**" if row is first else used
        lines.append(f"| {row.what} | {row.formula} | {shown(row)} | {used} |")
    return "\n".join([*lines, "", f"First limit: {first.what}."])


def shown(row: Row) -> str:
    """Format a value with its unit; parts of a terabyte in gigabytes."""
    value, unit = row.value, row.unit
    if unit == "TB" and value < 1:
        value, unit = value * 1000, "GB"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.2g} {unit}"


def parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and contents of the generated parts of a page."""
    yield from re.findall(r"<!-- computed: ([\w-]+) -->\n(.*?)\n<!-- end -->", text, re.DOTALL)


def with_tables(text: str, computed: Mapping[str, str]) -> str:
    """Return the page with these tables."""
    return re.sub(
        r"(<!-- computed: ([\w-]+) -->\n).*?(\n<!-- end -->)",
        lambda match: f"{match[1]}{computed[match[2]]}{match[3]}",
        text,
        flags=re.DOTALL,
    )


def main() -> int:
    """Write the tables into the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    computed = tables(Constants.newest(arguments.results))
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), computed), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
