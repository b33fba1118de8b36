"""Log sharded over databases of one server: fill it, sum up its events, and those of a lake table."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from pgsluice.errors import ConfigurationError

LOG = "size"
CONCURRENT = 2
TRANSACTION = 5_000
# Row, index entry and WAL.
EVENT_BYTES = 260
SPARE_BYTES = 2 << 30
# Weights distinguish events of equal sums.
MODULUS = 1009


@dataclass(frozen=True)
class Sums:
    """Events of a shard.

    Attributes:
        count: Their number.
        ids: Sum of `ev_id`.
        weighted: Sum of `ev_id` times the number in `ev_data` modulo `MODULUS`.
    """

    count: int = 0
    ids: int = 0
    weighted: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.count + other.count, self.ids + other.ids, self.weighted + other.weighted)


def make_shards(place: Place, count: int) -> dict[str, str]:
    """Return the DSNs of databases with our schemas by shard name, created if they do not exist."""
    found = {}
    for number in range(1, count + 1):
        name = f"shard_{number}"
        found[name] = place.server.url(name)
        there = place.connection.execute("select from pg_database where datname = %s", [name])
        if there.fetchone() is None:
            place.connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
            with psycopg.connect(found[name], autocommit=True) as connection:
                Pgsluice().install(connection)
    return found


def reset(shards: Mapping[str, str]) -> None:
    """Create the log anew in all shards; segments are reclaimed as soon as their events are read."""
    for dsn in shards.values():
        with psycopg.connect(dsn, autocommit=True) as connection:
            if connection.execute("select 1 from pgq.get_queue_info(%s)", [LOG]).fetchone():
                connection.execute("select pgq.drop_queue(%s, true)", [LOG])
            connection.execute("select pgq.create_queue(%s)", [LOG])
            connection.execute("select pgq.set_queue_config(%s, 'rotation_period', '0')", [LOG])


def fill(
    place: Place, shards: Mapping[str, str], events: Mapping[str, int], tick_events: int
) -> float:
    """Append minimal events on the server, a few thousand per transaction; return the time in seconds.

    Args:
        place: Its server has the shards.
        shards: DSNs by name.
        events: Number of events by shard.
        tick_events: Events per tick, which the stream does not divide.
    """
    needed = sum(events.values()) * EVENT_BYTES + SPARE_BYTES
    free = shutil.disk_usage(place.server.data).free
    if free < needed:
        raise ConfigurationError(
            f"the disk has {free / 1e9:.0f} GB free, and this round needs {needed / 1e9:.0f}; set a smaller "
            "--option spark_size_round"
        )
    begin = time.monotonic()

    def fill_one(shard: str) -> None:
        with psycopg.connect(shards[shard], autocommit=True) as connection:
            ((table,),) = connection.execute("select pgq.current_event_table(%s)", [LOG]).fetchall()
            connection.execute(
                f"""do $$
                declare
                    v_done bigint := 0;
                    v_ticked bigint := 0;
                    v_next bigint;
                begin
                    while v_done < {events[shard]} loop
                        v_next := least(v_done + {min(TRANSACTION, tick_events)}, {events[shard]});
                        insert into {table} (ev_type, ev_data)
                        select 'e', n::text from generate_series(v_done + 1, v_next) as n;
                        commit;
                        v_done := v_next;
                        if v_done - v_ticked >= {tick_events} then
                            perform sluice.log_tick('{LOG}'::text);
                            commit;
                            v_ticked := v_done;
                        end if;
                    end loop;
                end $$"""
            )

    with ThreadPoolExecutor(CONCURRENT) as threads:
        list(threads.map(fill_one, [name for name, count in events.items() if count]))
    place.connection.execute("checkpoint")
    return time.monotonic() - begin


def expected(shards: Mapping[str, str], before: Mapping[str, Sums]) -> dict[str, Sums]:
    """Return the sums of all events of each shard, where the log may lack those of `before`."""

    def sum_one(shard: str) -> Sums:
        known = before.get(shard, Sums())
        with psycopg.connect(shards[shard]) as connection:
            # Numbers start at 1 and have no gaps, as no transaction is rolled back.
            ((parent,),) = connection.execute(
                "select queue_data_pfx from pgq.queue where queue_name = %s", [LOG]
            ).fetchall()
            ((count, ids, weighted),) = connection.execute(
                f"select count(*), coalesce(sum(ev_id), 0)::bigint, "
                f"coalesce(sum(ev_id * (ev_data::bigint %% {MODULUS})), 0)::bigint from {parent} where ev_id > %s",
                [known.count],
            ).fetchall()
        return known + Sums(count, ids, weighted)

    with ThreadPoolExecutor(CONCURRENT) as threads:
        return dict(zip(shards, threads.map(sum_one, shards), strict=True))


def in_lake(lake: Path) -> dict[str, Sums]:
    """Return the sums of a lake table's events by shard."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from pgsluice.lake.delta.opening import open_dataset

    sums: dict[str, Sums] = {}
    for batch in open_dataset(str(lake)).to_batches(columns=["shard", "ev_id", "ev_data"]):
        number = batch.column("ev_data").cast(pa.int64())
        quotient = pc.divide(number, MODULUS)
        weight = pc.subtract(number, pc.multiply(quotient, MODULUS))
        table = pa.table(
            {
                "shard": batch.column("shard"),
                "id": batch.column("ev_id"),
                "weighted": pc.multiply(batch.column("ev_id"), weight),
            }
        )
        grouped = table.group_by("shard").aggregate(
            [("id", "count"), ("id", "sum"), ("weighted", "sum")]
        )
        for row in grouped.to_pylist():
            sums[row["shard"]] = sums.get(row["shard"], Sums()) + Sums(
                row["id_count"], row["id_sum"], row["weighted_sum"]
            )
    return dict(sorted(sums.items()))


def free_segments(shards: Mapping[str, str]) -> None:
    """Truncate the segments whose events all consumers have read."""
    for dsn in shards.values():
        with psycopg.connect(dsn, autocommit=True) as connection:
            for _ in range(2):
                connection.execute("select sluice.log_tick(%s::text)", [LOG])
                connection.execute("select pgq.maint_rotate_tables_step1(%s)", [LOG])
                connection.execute("select pgq.maint_rotate_tables_step2()")
