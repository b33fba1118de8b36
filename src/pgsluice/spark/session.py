"""Start a Spark session with an available Java, quiet logs, UTC and our data sources registered."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.settings import Settings
from pgsluice.spark.extra import require_extra
from pgsluice.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

# Spark settings for low-latency streams. With the default, TCP between Java and its Python processes, small responses
# wait 40 ms for a delayed ACK, which is two thirds of a micro-batch's overhead over Spark's built-in sources. Drawback:
# if a task ends early, as with limit(), Spark prints a harmless BrokenPipeError.
QUICK = {"spark.python.unix.domain.socket.enabled": "true"}
# Java processes started by this process. Spark names its own only after the start, which an interrupted start never
# reaches: Java then prints an exception and keeps running without its parent.
_java: list[subprocess.Popen[bytes]] = []
_is_killed = False
_is_starting = False
# Spark's own default of 1 GB leaves little for a micro-batch in flight.
DRIVER_MEMORY = "2g"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_EXISTS = "DATA_SOURCE_ALREADY_EXISTS"
_RANGE = 1 << 20  # more than the cores of any cluster
_LOGIN_IN_URL = r"(?<=://)[^\s/@:]*:[^\s@]+(?=@)"
_PASSWORD = re.compile(rf"{_LOGIN_IN_URL}|\bpassword\s*=\s*\S")


def spark_session(
    app_name: str = "pgsluice",
    *,
    master: str = "local[2,4]",
    conf: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> SparkSession:
    """Start a Spark session, or return the running one, with our data sources registered.

    Sets `JAVA_HOME` of this process to the Java found, and `PYSPARK_PYTHON` to this Python unless it is set, as Spark
    starts its processes with them.

    Args:
        app_name: Name in Spark's logs and UI.
        master: Spark's master URL. By default two tasks run concurrently with up to four attempts each, as on a
            cluster: a task may lose its connection in the middle of a result.
        conf: Spark settings that override ours. A URL with a password is refused, as Spark shows its settings in its
            web UI and event log.
        settings: Loaded from the environment by default.

    Raises:
        MissingExtraError: A package of the extra `spark` is not installed.
        MissingJavaError: Java 17 or newer was not found.
        ConfigurationError: A setting holds a password, or Spark does not start with these settings.
    """
    require_extra()
    _refuse_passwords(conf or {})
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # Otherwise workers use `python3` from PATH, which may lack our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkContext._jvm is None:  # noqa: SLF001 - the only way to know that Java already runs
        os.environ["JAVA_HOME"] = str(find_java(settings).home)
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in {**_defaults(master), **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        with _recorded_java():
            session: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise _not_started(error) from None
    register(session)
    return session


def kill_java() -> None:
    """Kill Spark's Java process, running or starting, for a command that was interrupted.

    A lake or queue is left as after a crash: the next run resumes. Sessions of this process are unusable afterwards.
    """
    global _is_killed  # a start in another thread reads it
    _is_killed = True
    if accumulators := sys.modules.get("pyspark.accumulators"):
        # Its thread would print the end of Java's connection with a traceback.
        accumulators.AccumulatorTCPServer.handle_error = lambda *_: None
        accumulators.AccumulatorUnixServer.handle_error = lambda *_: None
    for process in _java:
        process.kill()
        process.wait()


def cancel_start() -> None:
    """Kill Spark's Java process if a session is starting, which takes seconds; leave a running session alone."""
    if _is_starting:
        kill_java()


@contextmanager
def _recorded_java() -> Iterator[None]:
    """Record the Java process that Spark starts."""
    from pyspark import java_gateway

    global _is_starting  # read by the thread that cancels

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            _java.append(self)
            if _is_killed:
                self.kill()

    java_gateway.Popen = Recorded
    _is_starting = True
    try:
        yield
    finally:
        _is_starting = False
        java_gateway.Popen = subprocess.Popen


def is_connect(spark: SparkSession) -> bool:
    """True for a session of Spark Connect, which has no access to Spark's Java process."""
    return "connect" in type(spark).__module__.split(".")


def default_parallelism(spark: SparkSession) -> int:
    """Return the number of tasks that Spark runs concurrently by default."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    # A range has as many partitions; a client of Spark Connect has no other way to know.
    return int(spark.range(_RANGE).selectExpr("spark_partition_id()").distinct().count())


def can_push(spark: SparkSession) -> bool:
    """True if the session passes filters to data sources that ask for them."""
    from pgsluice.spark.features import HAS_FILTERS

    return HAS_FILTERS and str(spark.conf.get(_PUSHDOWN, "false")).lower() == "true"


def register(spark: SparkSession) -> None:
    """Register our data sources in an existing session; idempotent.

    The formats are `pgsluice`, `pgsluice-delta` and `pgsluice-iceberg`. On a cluster the package must also be installed
    for the workers' Python, as Spark registers classes by name.
    """
    require_extra()
    from pgsluice.spark.lake_source import DeltaSource, IcebergSource
    from pgsluice.spark.source import PgsluiceSource

    for source in (PgsluiceSource, DeltaSource, IcebergSource):
        register_source(spark, source)


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source in an existing session; idempotent."""
    from pyspark.errors import AnalysisException

    with _thread_safe_environment():
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if error.getCondition() != _EXISTS:
                raise
            # Spark checked the active session, which is a different one. Creating a DataFrame activates this session.
            spark.createDataFrame([], "nothing int")
            try:
                spark.dataSource.register(source)
            except AnalysisException as again:
                # Spark 4.0 does not replace a source that it discovered itself, in `pyspark_pgsluice`.
                if again.getCondition() != _EXISTS:
                    raise


@contextmanager
def _thread_safe_environment() -> Iterator[None]:
    """Give a data source registered meanwhile a map of environment variables that several threads may change.

    All streams of a registered class share the map, and each adds variables to it when it starts. With Spark's HashMap,
    streams that start at once leave a wrong size in it, and every task then fails with an OptionalDataException.
    """
    try:
        from pyspark import SparkContext
    except ImportError:  # the package of Spark Connect's client alone
        yield
        return
    context = SparkContext._active_spark_context  # noqa: SLF001 - None with Spark Connect, where the server registers
    if context is None or context._jvm is None:  # noqa: SLF001
        yield
        return
    environment = context.environment
    context.environment = context._jvm.java.util.concurrent.ConcurrentHashMap(environment)  # noqa: SLF001
    try:
        yield
    finally:
        context.environment = environment


def _not_started(error: Exception) -> SluiceError:
    """Translate Spark's start failure into a one-line error."""
    if _is_killed:
        return SluiceError("Spark's start was cancelled")
    lines = str(error).splitlines() or [type(error).__name__]
    # Java's own error is on the line after "An error occurred while calling …".
    reason = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
    return ConfigurationError(
        f"Spark did not start: {reason.strip().rstrip('.')}; check Java's output above, the Spark settings and "
        f"JAVA_HOME, which is {os.environ.get('JAVA_HOME', 'not set')}"
    )


def _refuse_passwords(conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        if _PASSWORD.search(value):
            raise ConfigurationError(
                f"the setting {key} holds a password, which Spark would show in its web UI and event log; use the "
                "data source option dsnFile or dsnEnv instead"
            )


def _defaults(master: str) -> dict[str, str]:
    logging = Path(__file__).with_name("log4j2.properties")
    conf = {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Redact URLs that contain a password anyway: plans show options.
        "spark.redaction.string.regex": _LOGIN_IN_URL,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        # For the option pushdown: if off, Spark refuses readers with `pushFilters`.
        _PUSHDOWN: "true",
        # Row counts of a run are summed from progress reports; Spark keeps only 100 by default.
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    if logging.exists():  # not in a package shipped as an archive
        conf["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={logging.as_uri()}"
    if master.startswith("local"):
        # In containers, the host name often does not resolve.
        conf["spark.driver.bindAddress"] = "127.0.0.1"
        conf["spark.driver.host"] = "127.0.0.1"
    return conf
