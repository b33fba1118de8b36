"""Retry Spark calls that fail because a Python process for a source or sink did not start within ten seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pgsluice.spark.failure import engine_errors, is_start_timeout, translated
from pgsluice.spark.running import STARTS_MAX

Result = TypeVar("Result")


def with_retries(act: Callable[[], Result]) -> Result:
    """Call a function, with retries if a Python process of Spark does not start in time.

    Raises:
        SluiceError: Error of our code in that process, or of Spark.
    """
    for last in (False,) * (STARTS_MAX - 1) + (True,):
        try:
            return act()
        except engine_errors() as error:
            if last or not is_start_timeout(error):
                raise translated(error, "Spark") from None
    raise AssertionError  # the last attempt returns or raises
