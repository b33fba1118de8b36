"""Samples of a long run: what server, disk and processes say at one moment."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from bench.cpu import MemoryReads
from pgsluice.connection import connect
from pgsluice.embedded import EmbeddedServer

MEGABYTE = 1e6
# Rows of larger tables are not counted: those of queues, archives and logs, whose sizes are sampled.
COUNTED_BYTES = 4_000_000
# Partitions and segments of one table, and tables of a log, are one series: their numbers are replaced.
RELATIONS = """
select n.nspname || '.' || c.relname, c.relkind::text, coalesce(pg_total_relation_size(c.oid), 0),
    coalesce(s.n_dead_tup, 0)::bigint
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
left join pg_stat_all_tables as s on s.relid = c.oid
where c.relkind in ('r', 'm', 'S') and n.nspname <> 'information_schema' and n.nspname !~ '^pg_(toast|temp)'
"""
FACTS = """
select json_build_object(
    'xid_age', (select max(age(d.datfrozenxid)) from pg_database as d),
    'multixact_age', (select max(mxid_age(d.datminmxid)) from pg_database as d),
    'relations', (select count(*) from pg_class),
    'temp_bytes', (select temp_bytes from pg_stat_database where datname = current_database()),
    'xids', pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    'statistics', (select count(*) from pg_statistic),
    'sessions', (select count(*) from pg_stat_activity)
)
"""


SEQUENCES = """
select schemaname || '.' || sequencename, last_value::float8 / max_value from pg_sequences where last_value is not null
"""


@dataclass
class Sample:
    """State of a run at one moment.

    Attributes:
        slice: Number of the slice, from 1.
        at_s: Seconds of load since the first slice started.
        done: Messages done since the start of the run, by each of the processes that must have every one.
        sent: Messages sent since the start of the run.
        flags: `starting` within the first seconds of processes or server, and `held` under the held snapshot.
        latencies: Milliseconds of each claim and tick since the last sample.
        memory: Megabytes of anonymous memory of each process; the largest backend of the server is `backend`.
        cpu_s: CPU seconds of all processes since the last sample; None after a restart of the server.
        disk: Megabytes of each folder of the server, and of its log.
        relations: Of each series of relations: bytes, dead rows, relations, and rows, or None if it is large.
        facts: Numbers of `FACTS`.
        sequences: Used part of each sequence.
        clock_s: Time since 1970, which some sequences contain.
        memory_read_ns: Time of a random read of the machine's memory.
    """

    slice: int
    at_s: float
    done: int
    sent: int
    flags: list[str] = field(default_factory=list)
    latencies: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    cpu_s: float | None = None
    disk: dict[str, float] = field(default_factory=dict)
    relations: dict[str, list[int | None]] = field(default_factory=dict)
    facts: dict[str, float | None] = field(default_factory=dict)
    sequences: dict[str, float] = field(default_factory=dict)
    clock_s: float = field(default_factory=time.time)
    memory_read_ns: float | None = None

    def line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


def read_samples(file: Path) -> list[Sample]:
    """Return the samples of a file; a last line that a kill cut off is left out."""
    found = []
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                found.append(Sample(**json.loads(line)))
    return found


class Sampler:
    """Reads samples; its connection is opened again after a crash of the server."""

    def __init__(self, server: EmbeddedServer, probe: Path) -> None:
        """Prepare.

        Args:
            server: The server.
            probe: File to which the probe writes.
        """
        self._server, self._probe, self._probed = server, probe, 0
        self._session: psycopg.Connection[Any] | None = None
        self._cpu: dict[int, float] = {}
        self._reads = MemoryReads()

    def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.close()

    def sample(self, pids: dict[str, int], **known: Any) -> Sample | None:
        """Return a sample, or None if the server does not answer.

        Args:
            pids: Process ids, by name.
            **known: Fields of the sample that are known.
        """
        try:
            if self._session is None or self._session.closed:
                self._session = connect(self._server.url(), autocommit=True)
                self._session.execute("set lock_timeout = '100ms'")
            relations, facts = self._relations(self._session), self._facts(self._session)
            sequences = dict(self._session.execute(SEQUENCES).fetchall())
        except psycopg.OperationalError:
            self.close()
            self._session = None
            return None
        backends = dict(self._backends())
        memory = {name: anonymous_mb(pid) for name, pid in pids.items()}
        memory["backend"] = max((anonymous_mb(pid) for pid in backends.values()), default=0.0)
        return Sample(
            **known,
            latencies=self._latencies(),
            memory={name: mb for name, mb in memory.items() if mb},
            cpu_s=self._spent([*pids.values(), *self._processes_of_server()]),
            disk=self._disk(),
            relations=relations,
            facts=facts,
            sequences=sequences,
            memory_read_ns=self._reads.ns(),
        )

    def _relations(self, session: psycopg.Connection[Any]) -> dict[str, list[int | None]]:
        found: dict[str, list[int | None]] = {}
        for name, kind, size, dead in session.execute(RELATIONS).fetchall():
            key = series(name) if kind != "S" else "sequences"
            entry = found.setdefault(key, [0, 0, 0, 0])
            rows = count_rows(session, name) if kind != "S" and 0 < size <= COUNTED_BYTES else 0
            is_large = size > COUNTED_BYTES or rows is None or entry[3] is None
            entry[:] = [(entry[0] or 0) + size, (entry[1] or 0) + dead, (entry[2] or 0) + 1,
                        None if is_large else (entry[3] or 0) + (rows or 0)]  # fmt: skip
        return found

    def _facts(self, session: psycopg.Connection[Any]) -> dict[str, float | None]:
        ((facts,),) = session.execute(FACTS).fetchall()
        return dict(facts)

    def _latencies(self) -> dict[str, list[float]]:
        """Return what the probe wrote since the last call, except for a line that it has not finished."""
        found: dict[str, list[float]] = {}
        with suppress(FileNotFoundError), self._probe.open(encoding="ascii") as file:
            file.seek(self._probed)
            text = file.read()
            complete = text[: text.rfind("\n") + 1]
            self._probed += len(complete)
            for line in complete.splitlines():
                kind, ms = json.loads(line)
                found.setdefault(kind, []).append(ms)
        return found

    def _disk(self) -> dict[str, float]:
        found = {
            entry.name: folder_bytes(entry.path) / MEGABYTE
            for entry in os.scandir(self._server.data)
            if entry.is_dir(follow_symlinks=False)
        }
        temporary = self._server.data / "base" / "pgsql_tmp"
        found["temporary files"] = folder_bytes(str(temporary)) / MEGABYTE
        found["server log"] = self._server.log.stat().st_size / MEGABYTE
        return {name: round(mb, 3) for name, mb in found.items()}

    def _processes_of_server(self) -> list[int]:
        found = self._server.found()
        if found is None:
            return []
        try:
            text = Path(f"/proc/{found.pid}/task/{found.pid}/children").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            return []
        return [found.pid, *map(int, text.split())]

    def _backends(self) -> Iterator[tuple[str, int]]:
        for pid in self._processes_of_server()[1:]:
            with suppress(FileNotFoundError, ProcessLookupError):
                title = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                if "[local]" in title:
                    yield f"{title} {pid}", pid

    def _spent(self, pids: list[int]) -> float | None:
        """Return the CPU seconds since the last call, without processes that started or ended meanwhile."""
        before, self._cpu = self._cpu, {pid: cpu_s(pid) for pid in pids}
        both = before.keys() & self._cpu.keys()
        if not both:
            return None
        return round(sum(self._cpu[pid] - before[pid] for pid in both), 2)


def series(name: str) -> str:
    """Return the name of the series of a relation: partitions and segments differ in their numbers."""
    return re.sub(r"\d+", "#", name)


def count_rows(session: psycopg.Connection[Any], name: str) -> int | None:
    """Return the rows of a table, or None if it was dropped or is locked."""
    schema, _, table = name.partition(".")
    statement = psycopg.sql.SQL("select count(*) from only {}").format(
        psycopg.sql.Identifier(schema, table)
    )
    try:
        ((rows,),) = session.execute(statement).fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.LockNotAvailable):
        return None
    return int(rows)


def folder_bytes(path: str) -> int:
    """Return the bytes that the files of a folder occupy; files that vanish meanwhile do not count."""
    size = 0
    with suppress(FileNotFoundError):
        for entry in os.scandir(path):
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    size += folder_bytes(entry.path)
                else:
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
    return size


def anonymous_mb(pid: int) -> float:
    """Return the anonymous memory of a process, which excludes the shared buffers; 0 if it ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        found = re.search(
            r"RssAnon:\s+(\d+)",
            Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace"),
        )
        return round(int(found[1]) * 1024 / MEGABYTE, 1) if found else 0.0
    return 0.0


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process; 0 if it ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(") ")[2]
            .split()
        )
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return 0.0
