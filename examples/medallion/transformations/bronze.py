"""Bronze: every event of the log, as it was committed, each once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession


@dp.table
def bronze() -> DataFrame:
    # Where the server is stands in PGSLUICE_DSN: an option would show it in plans and logs.
    reader = SparkSession.active().readStream.format("pgsluice")
    return reader.options(log="orders", consumer="medallion").load()
