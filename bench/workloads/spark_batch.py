"""Rows per second Spark reads from a queue, compared with ADBC alone and Spark's JDBC source."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import jdbc
from bench.cpu import cpu_of_all
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from pgsluice.client.calls import spark as calls
from pgsluice.client.calls.call import Call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "Rows of a queue read by Spark into nothing, messages of 200 bytes, headers in every second"
UNIT = "rows a second"
SYSTEMS = [Pgsluice()]
OPTIONS = {"spark_batch_rows": 1_000_000}
NOTES: list[str] = []
TCP = True  # JDBC does not support Unix sockets
QUEUE = "bench"
COLUMNS = ["msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "message", "headers"]


@dataclass(frozen=True)
class Question:
    """Way to read all rows.

    Attributes:
        name: Label in the results table.
        read: Function that reads them; returns the row count, or None if not counted.
    """

    name: str
    read: Callable[[Place], int | None]


def measure(place: Place, question: Question) -> float:
    """Read all rows once.

    Returns:
        Rows per second of wall-clock time.
    """
    fill(place)
    jdbc.session()  # starting Spark takes seconds
    rows = OPTIONS["spark_batch_rows"]
    with cpu_of_all(place, NOTES, question.name, rows):
        begin = time.perf_counter()
        count = question.read(place)
        took_s = time.perf_counter() - begin
    if count not in (rows, None):
        raise RuntimeError(f"{count} rows instead of {rows} were read by {question.name}")
    return rows / took_s


def fill(place: Place) -> None:
    """Create the queue if it does not exist."""
    connection = place.connection
    if connection.execute("select queue_name from pgmq.list_queues()").fetchone():
        return
    connection.execute("select pgmq.create(%s)", [QUEUE])
    connection.execute(
        "insert into pgmq.q_bench (vt, message, headers) "
        "select now(), jsonb_build_object('id', n, 'kind', 'order.paid', 'customer', md5(n::text), 'note', "
        "repeat(substr(md5((n + 1)::text), 1, 20), 4), 'amount', mod(n, 1000)), "
        'case when mod(n, 2) = 0 then \'{"trace": "4bf92f3577b34da6"}\'::jsonb end '
        "from generate_series(1, %s) as n",
        [OPTIONS["spark_batch_rows"]],
    )
    connection.execute("vacuum analyze pgmq.q_bench")
    connection.execute("checkpoint")


def adbc_alone(place: Place) -> int:
    """Read one stream of record batches without Spark, with our batch size."""
    import adbc_driver_postgresql.dbapi
    from adbc_driver_postgresql import StatementOptions

    call: Call[list[str]] = calls.queue_slices(QUEUE, "queue", 1, COLUMNS)
    ((query,),) = place.connection.execute(call.sql, call.parameters).fetchall()
    url = place.server.url(place.connection.info.dbname)
    with (
        adbc_driver_postgresql.dbapi.connect(url, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.adbc_statement.set_options(
            **{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(1 << 20)}
        )
        cursor.execute(query)
        return sum(batch.num_rows for batch in cursor.fetch_record_batch())


def ours(partitions: int, reader: str) -> Callable[[Place], None]:
    """Read with the format pgsluice."""

    def read(place: Place) -> None:
        from pgsluice.spark.access import private_file

        with private_file(place.server.url(place.connection.info.dbname)) as path:
            reading = jdbc.session().read.format("pgsluice").option("dsnFile", str(path))
            reading = reading.options(queue=QUEUE, numPartitions=str(partitions), reader=reader)
            drain(reading.load())

    return read


def by_jdbc(partitions: int) -> Callable[[Place], None]:
    """Read with Spark's format jdbc, also with JSON as text."""

    def read(place: Place) -> None:
        reading = (
            jdbc.session()
            .read.format("jdbc")
            .options(
                **jdbc.options(place.server.url(place.connection.info.dbname)), fetchsize="10000"
            )
        )
        reading = reading.option(
            "dbtable",
            "(select msg_id, read_ct, enqueued_at, last_read_at, vt, message::text as message, "
            "headers::text as headers from pgmq.q_bench) as rows",
        )
        if partitions > 1:
            reading = reading.options(
                partitionColumn="msg_id",
                lowerBound="1",
                upperBound=str(OPTIONS["spark_batch_rows"] + 1),
                numPartitions=str(partitions),
            )
        drain(reading.load())

    return read


def drain(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


ADBC, ONE, TWO = "ADBC alone", "one task", "two tasks"
JDBC_ONE, JDBC_TWO = "Spark's JDBC source, one task", "Spark's JDBC source, two tasks"
ONE_AGAIN = "one task, again"  # a question has one goal
QUESTIONS = [
    Question(ADBC, adbc_alone),
    Question(ONE, ours(1, "adbc")),
    Question(TWO, ours(2, "adbc")),
    Question("one task by COPY", ours(1, "copy")),
    Question("one task by rows", ours(1, "rows")),
]
GOALS = {
    ONE: Goal(
        0.95,
        of=ADBC,
        why_missed="ADBC alone saturates one core, and the server the other; Java competes with both",
    )
}
if jdbc.jar() is None:
    NOTES.append(
        f"without Spark's JDBC source: install libpostgresql-jdbc-java, or name the driver in {jdbc.VARIABLE}"
    )
else:
    QUESTIONS += [
        Question(ONE_AGAIN, ours(1, "adbc")),
        Question(JDBC_ONE, by_jdbc(1)),
        Question(JDBC_TWO, by_jdbc(2)),
    ]
    GOALS |= {
        ONE_AGAIN: Goal(1.4, of=JDBC_ONE),
        TWO: Goal(
            1.1,
            of=JDBC_TWO,
            why_missed="both saturate the two cores: a row takes as much CPU time of the server, and that of Python, "
            "which decodes it, and of Java, which receives it, together is above that of Java alone",
        ),
    }
