"""Start Spark: with the Java that is there, quiet, in UTC, and with our formats registered."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigurationError
from pgsluice.settings import Settings
from pgsluice.spark.extra import require_extra
from pgsluice.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

# Spark's settings for streams that are to be quick. Java and its Python processes talk through TCP else, where a small
# answer waits 40 ms for an acknowledgement: two thirds of what a micro-batch costs beyond Spark's own sources. The
# price: where a task ends early, as with limit(), Spark prints a BrokenPipeError that means nothing.
QUICK = {"spark.python.unix.domain.socket.enabled": "true"}
_LOGIN_IN_URL = r"(?<=://)[^\s/@:]*:[^\s@]+(?=@)"
_PASSWORD = re.compile(rf"{_LOGIN_IN_URL}|\bpassword\s*=\s*\S")


def spark_session(
    app_name: str = "pgsluice",
    *,
    master: str = "local[2,4]",
    conf: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> SparkSession:
    """Start a Spark session, or return the running one, with our formats registered.

    The Java that was found is left in `JAVA_HOME` of this process, and this Python in
    `PYSPARK_PYTHON` unless it was set: Spark starts its processes by them.

    Args:
        app_name: Shown in Spark's logs and UI.
        master: Spark's master URL. By default two tasks run at a time, each tried four times as on a cluster: a
            task may lose its connection in the middle of a result.
        conf: Spark settings that go before ours. A URL with a password in it is refused: Spark shows its
            settings, in its web pages and its event log.

        settings: Read from the environment by default.

    Raises:
        MissingExtraError: A package of the extra `spark` is not installed.
        MissingJavaError: There is no Java 17 or newer.
        ConfigurationError: A setting holds a password, or Spark does not start with these settings.
    """
    require_extra()
    _refuse_passwords(conf or {})
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # Without it workers take `python3` from PATH, which has not got our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkContext._jvm is None:  # noqa: SLF001 - the only way to know that Java already runs
        os.environ["JAVA_HOME"] = str(find_java(settings).home)
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in {**_defaults(master), **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        session: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise _not_started(error) from None
    register(session)
    return session


def register(spark: SparkSession) -> None:
    """Register our formats in a session of the caller's; again does no harm.

    The formats are `pgsluice`, `pgsluice-delta` and `pgsluice-iceberg`. On a cluster the package must
    be installed for the workers' Python too: what is registered is its name.
    """
    require_extra()
    from pgsluice.spark.lake_sink import DeltaSink, IcebergSink
    from pgsluice.spark.source import PgsluiceSource

    for source in (PgsluiceSource, DeltaSink, IcebergSink):
        _register(spark, source)


def _register(spark: SparkSession, source: type[DataSource]) -> None:
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # Spark looked into the active session, which is another. Making a table makes this one active.
        spark.createDataFrame([], "nothing int")
        spark.dataSource.register(source)


def _not_started(error: Exception) -> ConfigurationError:
    """Why Spark did not start, on one line."""
    lines = str(error).splitlines() or [type(error).__name__]
    # Java's own error is on the line after "An error occurred while calling …".
    reason = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
    return ConfigurationError(
        f"Spark did not start: {reason.strip().rstrip('.')}; look at what Java said above, at the settings "
        f"given and at JAVA_HOME, which is {os.environ.get('JAVA_HOME', 'not set')}"
    )


def _refuse_passwords(conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        if _PASSWORD.search(value):
            raise ConfigurationError(
                f"the setting {key} holds a password, which Spark would show in its web pages and its event "
                "log; give the format's option dsnFile or dsnEnv instead"
            )


def _defaults(master: str) -> dict[str, str]:
    logging = Path(__file__).with_name("log4j2.properties")
    conf = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # For what a URL may be in all the same: a plan shows options.
        "spark.redaction.string.regex": _LOGIN_IN_URL,
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
