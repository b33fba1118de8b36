"""A program for a cluster whose machines lack this package: a batch read, a stream and a write.

spark-submit --py-files pgsluice.zip shipped_driver.py DSN LAKE FOUND
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import pgsluice
from pgsluice.schema.texts import functions
from pgsluice.spark.retry import with_retries
from pgsluice.spark.session import register

DSN, LAKE, FOUND = sys.argv[1:]


def package_of(_: object) -> str:
    import pgsluice

    return str(pgsluice.__file__)


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    register(spark)
    read = spark.read.format("pgsluice").options(dsn=DSN, queue="orders", numPartitions="2")
    found: dict[str, object] = {
        "driver": pgsluice.__file__,
        "executors": spark.sparkContext.range(4, numSlices=4).map(package_of).distinct().collect(),
        "functions": len(functions()),
        "messages": with_retries(read.load().count),
    }
    stream = spark.readStream.format("pgsluice").options(dsn=DSN, log="log", consumer="lake")
    writer = stream.load().writeStream.format("pgsluice-delta").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{LAKE}.checkpoint")
    with_retries(lambda: writer.start(LAKE)).awaitTermination()
    rows = spark.read.format("pgsluice-delta").load(LAKE)
    found["events"] = rows.count()
    sent = rows.selectExpr("ev_data as message").write.format("pgsluice").mode("append")
    sent.options(dsn=DSN, queue="copied").save()
    Path(FOUND).write_text(json.dumps(found))


main()
