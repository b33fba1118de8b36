"""A program that uses each source, sink and pipeline once, with any PySpark.

    python versions_driver.py everything FOLDER
    python versions_driver.py copy FOLDER        # streams a log into a queue until it is killed
    python versions_driver.py finish FOLDER      # and to its end

`PGSLUICE_DSN` names the database. `everything` writes what it read to FOLDER/found.json. With
`REMOTE` set, the session is one of Spark Connect.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import psycopg
import pyspark
from pyspark.sql import SparkSession

from pgsluice.lake.names import TableName
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.analytics import analytics
from pgsluice.pipelines.archive import archive
from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.events import events
from pgsluice.pipelines.options import CurrentStateOptions
from pgsluice.spark.retry import with_retries
from pgsluice.spark.session import register, spark_session
from pgsluice.verify import verify_current

WHAT, FOLDER = sys.argv[1], Path(sys.argv[2])
NOW = {"availableNow": True}


def session() -> SparkSession:
    remote = os.environ.get("REMOTE")
    if remote:
        spark = SparkSession.builder.remote(remote).getOrCreate()
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        register(spark)
        return spark
    conf = {
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # As on EMR and Dataproc, paths without a scheme are not local; nothing listens here.
        "spark.hadoop.fs.defaultFS": "hdfs://127.0.0.1:1",
    }
    return spark_session("versions", conf=conf)


class Program:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.found: dict[str, object] = {"version": pyspark.__version__}
        self.database = psycopg.connect(os.environ["PGSLUICE_DSN"], autocommit=True)

    def batch(self) -> None:
        read = self.spark.read.format("pgsluice")
        rows = read.option("queue", "orders").schema("msg_id bigint, message string").load()
        self.found["batch"] = sorted(int(row.message) for row in with_retries(rows.collect))
        self.found["range"] = self.spark.read.format("pgsluice").option("log", "log").load().count()
        try:
            pushed = read.options(queue="orders", pushdown="true").load().where("msg_id > 30")
            self.found["pushed"] = pushed.count()
        except Exception as error:  # Spark wraps it
            self.found["pushed"] = str(error)

    def insert(self, first: int, count: int) -> None:
        self.database.execute(
            "select pgq.insert_event('log', 'n', n::text) from generate_series(%s::int, %s::int) as n",
            (first, first + count - 1),
        )

    def log_stream(self) -> None:
        """Read what is there, then stop, then what is added meanwhile."""
        stream = self.spark.readStream.format("pgsluice").options(
            log="log", consumer="delta", maxRowsPerTrigger="10"
        )
        for more in (0, 15):
            self.insert(1000, more)
            writer = stream.load().writeStream.format("pgsluice-delta").trigger(**NOW)
            place = str(FOLDER / "stream")
            run(writer.option("checkpointLocation", f"file://{place}.checkpoint"), place)
        read = self.spark.read.format("pgsluice-delta")
        rows = read.schema("ev_data string").load(place).collect()
        self.found["stream"] = sorted(int(row.ev_data) for row in rows)

    def continuous(self) -> None:
        """Limits of a running stream, and its micro-batches."""
        stream = self.spark.readStream.format("pgsluice").options(
            log="log", consumer="noop", maxRowsPerTrigger="10", startingOffsets="latest"
        )
        writer = stream.load().writeStream.format("noop")
        place = FOLDER / "noop.checkpoint"
        query = writer.option("checkpointLocation", f"file://{place}").start()
        try:
            query.processAllAvailable()
            for n in range(4):
                self.insert(2000 + 8 * n, 8)
                self.database.execute("select pgq.force_tick('log')")
                self.database.execute("select pgq.ticker('log')")
            query.processAllAvailable()
            reports = query.recentProgress
            batches = [entry["sources"][0]["numInputRows"] for entry in reports]
        finally:
            query.stop()
        self.found["batches"] = [rows for rows in batches if rows]

    def queue_stream(self) -> None:
        """Claim messages of a queue, into a lake table and from there into another queue."""
        claims = self.spark.readStream.format("pgsluice").options(
            queue="orders", consumer="claims", maxRowsPerTrigger="10"
        )
        lake, place = str(FOLDER / "orders"), f"file://{FOLDER}/orders.checkpoint"
        for more in (0, 5):
            self.database.execute(
                "select pgmq.send('orders', to_jsonb(n)) from generate_series(101, 100 + %s) as n",
                (more,),
            )
            writer = claims.load().writeStream.format("pgsluice-delta").trigger(**NOW)
            run(writer.option("checkpointLocation", place), lake)
            table = self.spark.readStream.format("pgsluice-delta").option("maxFilesPerTrigger", "1")
            rows = table.load(lake).select("message")
            sink = rows.writeStream.format("pgsluice").option("queue", "copied").trigger(**NOW)
            run(sink.option("checkpointLocation", f"{place}.2"))
        read = self.spark.read.format("pgsluice").option("queue", "copied").load()
        self.found["copied"] = sorted(int(row.message) for row in read.collect())

    def pipelines(self) -> None:
        stream = events("log", FOLDER / "events", FOLDER / "events.c", spark=self.spark, once=True)
        self.found["events"] = stream.progress().rows
        for number in (1, 2):
            self.database.execute("update account set name = name || %s", (str(number),))
            state = CurrentStateOptions(snapshots=["account"])
            place = FOLDER / "changes"
            changes(
                "changes", place, FOLDER / "changes.c", spark=self.spark, once=True, state=state
            )
        self.database.execute(
            "insert into account select n, 'b' from generate_series(31, 9000) as n; "
            "update account set name = 'c' where id % 3 = 0; delete from account where id % 7 = 0"
        )
        # Continuous, and more events than the driver collapses itself.
        place = FOLDER / "changes"
        with changes("changes", place, FOLDER / "changes.c", spark=self.spark) as stream:
            stream.catch_up()
            self.database.execute("update account set name = 'd' where id < 5")
            stream.catch_up()
        report = verify_current(
            "account", str(tables_in(place).place_of(TableName("public", "account")))
        )
        self.found["changes"] = report.equal or str(report)
        self.database.execute("select pgmq.archive('copied', array[1, 2, 3])")
        self.found["archived"] = archive("copied", FOLDER / "archive", spark=self.spark).rows
        windows = analytics(FOLDER / "gold", queue="copied", report=False, spark=self.spark)
        self.found["analytics"] = windows.rows


def run(writer, path: str | None = None) -> None:
    query = with_retries(lambda: writer.start(path))
    query.awaitTermination()


def copy(spark: SparkSession) -> None:
    log = spark.readStream.format("pgsluice").options(
        log="log", consumer="copy", maxRowsPerTrigger="20", offsets="snapshots"
    )
    rows = log.load().selectExpr("ev_data as message")
    writer = rows.writeStream.format("pgsluice").option("queue", "copies")
    writer = writer.option("checkpointLocation", f"file://{FOLDER}/copies.checkpoint")
    if WHAT == "finish":
        writer = writer.trigger(**NOW)
    run(writer)


def main() -> None:
    spark = session()
    if WHAT != "everything":
        copy(spark)
        return
    program = Program(spark)
    program.batch()
    program.continuous()
    program.log_stream()
    program.queue_stream()
    program.pipelines()
    (FOLDER / "found.json").write_text(json.dumps(program.found))


main()
