"""Bronze: every committed event of the log, exactly once and unchanged."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession


@dp.table
def bronze() -> DataFrame:
    # Connects with PGSLUICE_DSN, as Spark would show an option in plans and logs.
    reader = SparkSession.active().readStream.format("pgsluice")
    return reader.options(log="orders", consumer="medallion").load()
