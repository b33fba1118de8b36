"""Translate Spark's errors about failures of our code in its Python processes back into our errors."""

from __future__ import annotations

import re

from pgsluice import errors
from pgsluice.errors import ServerError, SluiceError

# Spark waits ten seconds for a new Python process, which is too short on a loaded machine. The error has no class or
# code, only this text.
_START_TIMEOUT = "Python worker failed to connect back"
_PYTHON_RAISED = re.compile(r"Traceback .*?^(\w[\w.]*: [^\n]+)$", re.MULTILINE | re.DOTALL)
# First line of a py4j error; Java's message follows.
_CALL = "An error occurred while calling "
_OURS = re.compile(r"pgsluice\.errors\.(\w+): (.+)")


def is_start_timeout(failure: BaseException) -> bool:
    """True if a Python process of Spark did not start in time, which is a transient error."""
    return _START_TIMEOUT in str(failure)


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
