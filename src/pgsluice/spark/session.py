"""Start Spark: with the Java that is there, quiet, in UTC, and with our formats registered."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import MissingExtraError
from pgsluice.settings import Settings
from pgsluice.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED = ("pyspark", "pyarrow", "adbc_driver_postgresql", "deltalake")


def require_extra() -> None:
    """Raise MissingExtraError when a package of the extra `spark` is not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"pipelines need the Python package{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            "`pip install 'pgsluice[spark]'`"
        )


def spark_session(
    app_name: str = "pgsluice",
    *,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> SparkSession:
    """Start a Spark session, or return the running one, with our formats registered.

    The Java that was found is left in `JAVA_HOME` of this process, and this Python in
    `PYSPARK_PYTHON` unless it was set: Spark starts its processes by them.

    Args:
        app_name: Shown in Spark's logs and UI.
        master: Spark's master URL.
        conf: Spark settings that go before ours. Never put a password here: Spark logs its settings.
        settings: Read from the environment by default.

    Raises:
        MissingExtraError: A package of the extra `spark` is not installed.
        MissingJavaError: There is no Java 17 or newer.
    """
    require_extra()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # Without it workers take `python3` from PATH, which has not got our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkContext._jvm is None:  # noqa: SLF001 - the only way to know that Java already runs
        os.environ["JAVA_HOME"] = str(find_java(settings).home)
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in {**_defaults(master), **(conf or {})}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    register(session)
    return session


def register(spark: SparkSession) -> None:
    """Register the formats `pgsluice` and `pgsluice-delta` in a session of the caller's."""
    require_extra()
    from pgsluice.spark.lake.delta import DeltaSink
    from pgsluice.spark.source import PgsluiceSource

    spark.dataSource.register(PgsluiceSource)
    spark.dataSource.register(DeltaSink)


def _defaults(master: str) -> dict[str, str]:
    logging = Path(__file__).with_name("log4j2.properties")
    conf = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        # For the option pushdown: where it is off, Spark refuses readers that take filters.
        "spark.sql.python.filterPushdown.enabled": "true",
        # The counts of a run are summed from the progress entries; Spark's default keeps 100.
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    if master.startswith("local"):
        # A machine whose host name does not resolve is common in containers.
        conf["spark.driver.bindAddress"] = "127.0.0.1"
        conf["spark.driver.host"] = "127.0.0.1"
    return conf
