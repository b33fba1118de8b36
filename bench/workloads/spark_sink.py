"""Throughput of Spark's writes to a queue, compared with Spark's JDBC sink and with ADBC without Spark."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import jdbc
from bench.cpu import cpu_of_all
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "Messages of about 200 bytes that two tasks send to a queue, from Parquet files"
UNIT = "messages a second"
SYSTEMS = [Pgsluice()]
REPEATS = 3
TCP = True  # JDBC does not support Unix sockets
OPTIONS = {"spark_sink_messages": 400_000}
NOTES: list[str] = []
QUEUE = "bench"
TASKS = 2
JDBC, ALONE, DIRECT, STAGED = "Spark's JDBC sink", "ADBC alone, no Spark", "direct", "staged"


@dataclass(frozen=True)
class Question:
    """Way to write to the queue; its name is the label in the results table."""

    name: str


JAR = jdbc.jar()
QUESTIONS = tuple(map(Question, (*([JDBC] if JAR else []), ALONE, DIRECT, STAGED)))
GOALS = {
    DIRECT: Goal(1.35, of=JDBC),
    STAGED: Goal(
        1.15,
        of=JDBC,
        why_missed="the CPU time of a row is 0.7 of the peer's, but 2.5 of 6.2 us are those of the one session "
        "that moves all rows in one transaction, in which the other core is idle",
    ),
}
if JAR is None:
    GOALS = {}


def measure(place: Place, question: Question) -> float:
    """Send all messages once, from the start of the write to its end.

    Returns:
        Messages a second.
    """
    from pgsluice.spark.access import private_file

    if JAR is None and not NOTES:
        NOTES.append("Spark's JDBC sink is skipped: PostgreSQL's JDBC driver is not installed")
    spark = jdbc.session()
    count = OPTIONS["spark_sink_messages"]
    folder = Path(tempfile.mkdtemp(prefix="pgsluice-bench-sink-"))
    url = place.server.url(place.connection.info.dbname)
    place.connection.execute("select pgmq.create(%s)", [QUEUE])
    try:
        spark.range(0, count, 1, TASKS).selectExpr(
            "to_json(named_struct('n', id, 'customer', id % 1000, 'note', repeat('x', 160))) as message"
        ).write.parquet(str(folder / "rows"))
        rows = spark.read.parquet(str(folder / "rows"))
        if rows.rdd.getNumPartitions() != TASKS:
            rows = rows.coalesce(TASKS)
        place.connection.execute("checkpoint")
        with private_file(url) as dsn_file:
            send = ways(rows, folder, url, dsn_file)[question.name]
            with cpu_of_all(place, NOTES, question.name, count):
                begin = time.perf_counter()
                send()
                took_s = time.perf_counter() - begin
        ((sent,),) = place.connection.execute(
            f"select count(*) from pgmq.q_{QUEUE} where vt <= enqueued_at and message ? 'n'"
        ).fetchall()
        if sent != count:
            raise RuntimeError(f"{sent} messages instead of {count} are ready in the queue")
        return count / took_s
    finally:
        place.connection.execute("select pgmq.drop_queue(%s)", [QUEUE])
        shutil.rmtree(folder)


def ways(rows: DataFrame, folder: Path, url: str, dsn_file: Path) -> dict[str, Callable[[], Any]]:
    """Return functions that send the rows, by question name."""
    ours = rows.write.format("pgsluice").mode("append").option("dsnFile", str(dsn_file))
    ours = ours.option("queue", QUEUE)
    return {
        JDBC: lambda: by_jdbc(rows, url),
        ALONE: lambda: by_adbc(folder, dsn_file),
        DIRECT: lambda: ours.option("delivery", "direct").save(),
        STAGED: lambda: ours.save(),
    }


def by_jdbc(rows: DataFrame, url: str) -> None:
    """Write as in Spark's guide, with the fastest driver settings."""
    # A vt before the transaction begins makes the messages ready, as ours are.
    ready = rows.selectExpr("current_timestamp() - interval 1 minute as vt", "message")
    ready.write.format("jdbc").mode("append").options(
        **jdbc.options(url, reWriteBatchedInserts="true", stringtype="unspecified"),
        dbtable=f"pgmq.q_{QUEUE}",
        batchsize="10000",
    ).save()


def by_adbc(folder: Path, dsn_file: Path) -> None:
    """Send the same files through one ADBC connection."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    from pgsluice.client.calls import spark_sinks as calls
    from pgsluice.spark.access import Access, driver_connection, run
    from pgsluice.spark.arrow_ingest import ingest
    from pgsluice.spark.sink_rows import as_messages

    access = Access(dsn_file=str(dsn_file))
    with driver_connection(access) as connection:
        table, now = run(connection, calls.queue_table(QUEUE), access.conninfo())
    batches = ds.dataset(folder / "rows").to_batches()
    schema = pa.schema([pa.field("message", pa.string())])
    ingest(access, ("pgmq", table), *as_messages(batches, schema, now))
