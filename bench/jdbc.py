"""Spark's own JDBC source and sink as peers, and the one session in which all workloads of Spark run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import conninfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "PGSLUICE_BENCH_JDBC_JAR"


def jar() -> Path | None:
    """PostgreSQL's JDBC driver: from the variable, or Debian's, or Maven's; None when it is not there."""
    named = os.environ.get(VARIABLE)
    places = [Path(named)] if named else [Path("/usr/share/java/postgresql.jar")]
    places += sorted((Path.home() / ".m2").glob("repository/org/postgresql/postgresql/*/*.jar"))
    return next((place for place in places if place.exists()), None)


def session() -> SparkSession:
    """A Spark that has the driver, if that is there."""
    from pgsluice.spark.session import spark_session

    driver = jar()
    jars = {} if driver is None else {"spark.jars": str(driver)}
    return spark_session("pgsluice bench", conf={"spark.driver.memory": "2g", **jars})


def options(url: str, **parameters: str) -> dict[str, str]:
    """What Spark's format `jdbc` needs to reach a server that listens on TCP.

    Args:
        url: Of libpq.
        parameters: The driver's own.
    """
    parts = conninfo.conninfo_to_dict(url)
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return {
        "url": f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}?{query}",
        "user": str(parts["user"]),
        "password": str(parts["password"]),
        "driver": "org.postgresql.Driver",
    }
