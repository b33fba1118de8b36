"""Tasks of the runner from configured pipelines, with Spark's errors translated."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgsluice.lake.file_errors import plain_errors
from pgsluice.pipelines.config import Pipeline
from pgsluice.pipelines.runner import RunnableStream, Task, Tell
from pgsluice.spark.extra import require_extra
from pgsluice.spark.failure import translated
from pgsluice.spark.running import Progress
from pgsluice.spark.session import QUICK, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[2]"
_POOL_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"


def tasks_of(
    pipelines: Sequence[Pipeline], *, once: bool, spark: Mapping[str, str] | None = None
) -> list[Task]:
    """Return the tasks of pipelines.

    Args:
        pipelines: From `config`, or constructed directly.
        once: True if each is to end after its backlog.
        spark: Spark settings; with any, a session shared by all starts immediately. Without, the first pipeline that
            needs a session starts it, after validating its own options.
    """
    if any(pipeline.needs_spark for pipeline in pipelines):
        require_extra()
        _return_memory()
    session = None
    if spark:
        settings = {**QUICK, **spark}
        session = spark_session(
            "pgsluice pipelines", master=settings.pop("spark.master", LOCAL), conf=settings
        )
    return [
        Task(one.name, _start(one, once, session), starts_in_turn=not one.repeats)
        for one in pipelines
    ]


def _return_memory() -> None:
    """Let Arrow return freed memory to the system, unless the environment chooses a memory pool.

    Arrow's default pool, mimalloc, keeps what a thread has freed until that thread allocates again: in a pipeline that
    compacts once an hour hundreds of MB. jemalloc returns it within seconds; all wheels for glibc include it.
    """
    if platform.libc_ver()[0] == "glibc":
        os.environ.setdefault(_POOL_VARIABLE, "jemalloc")  # read once pyarrow is loaded


def _start(
    pipeline: Pipeline, once: bool, session: SparkSession | None
) -> Callable[[threading.Event, Tell], RunnableStream | Progress]:
    def start(stop: threading.Event, tell: Tell) -> RunnableStream | Progress:
        given = {"once": once, "spark": session, "stop": stop, "on_progress": tell}
        taken = {name: value for name, value in given.items() if name in pipeline.arguments()}
        with _translated_errors(pipeline):
            answer: RunnableStream | Progress = pipeline.run(**taken)
        return answer

    return start


@contextmanager
def _translated_errors(pipeline: Pipeline) -> Iterator[None]:
    """Translate Spark's errors to ours, except for the loss of the Java process."""
    with plain_errors(f"a file or folder of pipeline {pipeline.name}"):
        if not pipeline.needs_spark:
            yield
            return
        from pyspark.errors import PySparkException

        try:
            from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        except ImportError:  # the package of Spark Connect's client alone
            Py4JJavaError = PySparkException  # noqa: N806

        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            raise translated(error, pipeline.name) from None
