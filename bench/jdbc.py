"""Spark's JDBC source and sink as peers, and the Spark session of these workloads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import conninfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "PGSLUICE_BENCH_JDBC_JAR"


def jar() -> Path | None:
    """Find PostgreSQL's JDBC driver: from the variable, Debian or Maven; None if it is not installed."""
    named = os.environ.get(VARIABLE)
    places = [Path(named)] if named else [Path("/usr/share/java/postgresql.jar")]
    places += sorted((Path.home() / ".m2").glob("repository/org/postgresql/postgresql/*/*.jar"))
    return next((place for place in places if place.exists()), None)


def session() -> SparkSession:
    """Return a Spark session with the driver, if installed."""
    from pgsluice.spark.session import QUICK, spark_session

    driver = jar()
    jars = {} if driver is None else {"spark.jars": str(driver)}
    return spark_session("pgsluice bench", conf={"spark.driver.memory": "2g", **QUICK, **jars})


def options(url: str, **parameters: str) -> dict[str, str]:
    """Return options of Spark's format `jdbc` for a server that listens on TCP.

    Args:
        url: libpq URL.
        parameters: Parameters of the driver.
    """
    parts = conninfo.conninfo_to_dict(url)
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return {
        "url": f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}?{query}",
        "user": str(parts["user"]),
        "password": str(parts["password"]),
        "driver": "org.postgresql.Driver",
    }
