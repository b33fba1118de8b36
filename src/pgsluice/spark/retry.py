"""Spark starts a Python process for each source and sink, and gives up after ten seconds: then again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pgsluice.spark.failure import is_start_timeout, told_by
from pgsluice.spark.running import STARTS_MAX

Result = TypeVar("Result")


def patiently(act: Callable[[], Result]) -> Result:
    """Do something that makes Spark start a Python process, again if it came up too late.

    Raises:
        SluiceError: What our code said in that process, or what Spark said.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    for last in (False,) * (STARTS_MAX - 1) + (True,):
        try:
            return act()
        except (PySparkException, Py4JError) as error:
            if last or not is_start_timeout(error):
                raise told_by(error, "Spark") from None
    raise AssertionError  # the last turn returns or raises
