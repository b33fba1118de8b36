"""Errors of our code in Spark's Python processes: their way to Spark, and back into our errors."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgsluice import errors
from pgsluice.errors import ServerError, SluiceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

# Spark waits ten seconds for a new Python process, which is too short on a loaded machine. The error has no class or
# code, only this text.
_START_TIMEOUT = "Python worker failed to connect back"
_PYTHON_RAISED = re.compile(r"Traceback .*?^(\w[\w.]*: [^\n]+)$", re.MULTILINE | re.DOTALL)
# First line of a py4j error; Java's message follows.
_CALL = "An error occurred while calling "
# Names by which Spark recognizes that its own stop of a query interrupted the function of foreachBatch.
_INTERRUPTED = re.compile(
    r"java\.lang\.InterruptedException|java\.io\.InterruptedIOException|java\.nio\.channels\.ClosedByInterruptException"
)
_OURS = re.compile(r"pgsluice\.errors\.(\w+): (.+)")


def engine_errors() -> tuple[type[Exception], ...]:
    """Return the error classes of Spark, and of the connection to its Java process if PySpark has one."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    except ImportError:
        return (PySparkException,)  # the package of Spark Connect's client alone
    return (PySparkException, Py4JError)


def is_start_timeout(failure: BaseException) -> bool:
    """True if a Python process of Spark did not start in time, which is a transient error."""
    return _START_TIMEOUT in str(failure)


def concise(function: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """Wrap a function of foreachBatch, so that Spark can read its errors.

    When a query stops, Spark matches the text of the function's error with `StreamExecution.PROXY_ERROR`. From about
    1,000 characters after py4j's first line on, and that is each stack trace of Java, this expression overflows the
    stack of the query's thread, which prints a thousand lines of `java.lang.StackOverflowError`.
    """

    def call(batch: DataFrame, batch_id: int) -> None:
        try:
            function(batch, batch_id)
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            if _CALL not in text:
                raise
            interrupted = _INTERRUPTED.search(text)
            if interrupted is None:
                raise RuntimeError(text.replace(_CALL, "py4j: error of ")) from None
            logger.debug("micro-batch %s was interrupted: %s", batch_id, text)
            raise RuntimeError(
                f"py4j.protocol.Py4JJavaError: {_CALL}foreachBatch: {interrupted[0]}"
            ) from None

    return call


def translated(failure: BaseException, what: str) -> SluiceError:
    """Extract our error from an error of Spark, or wrap Spark's message in a ServerError.

    Args:
        failure: Error of Spark, whose text contains the traceback of the Python process.
        what: Subject of the message.
    """
    text = str(failure)
    found = _OURS.findall(text)
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, SluiceError)
        if isinstance(kind, type) and issubclass(kind, SluiceError):
            return kind(message.strip())
    raised = _PYTHON_RAISED.search(text)
    if raised:
        return ServerError(f"{what} failed: {raised[1]}; see Spark's log")
    lines = (line.strip(" :\n") for line in text.splitlines())
    first = next(
        (line for line in lines if line and not line.startswith(_CALL)), type(failure).__name__
    )
    return ServerError(f"{what} failed: {first}; see Spark's log")
