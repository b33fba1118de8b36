"""What Spark says when our code in its Python processes fails, turned back into our own errors."""

from __future__ import annotations

import re

from pgsluice import errors
from pgsluice.errors import ServerError, SluiceError

# Spark gives a new Python process ten seconds to report, which a loaded machine may miss. There is no
# class or code for it, only these words.
_START_TIMEOUT = "Python worker failed to connect back"
_PYTHON_RAISED = re.compile(r"Traceback .*?^(\w[\w.]*: [^\n]+)$", re.MULTILINE | re.DOTALL)
# py4j's first line; Java's own words come after it.
_CALL = "An error occurred while calling "
_OURS = re.compile(r"pgsluice\.errors\.(\w+): (.+)")


def is_start_timeout(failure: BaseException) -> bool:
    """Whether a Python process of Spark did not start in time; starting again may help."""
    return _START_TIMEOUT in str(failure)


def told_by(failure: BaseException, what: str) -> SluiceError:
    """The error of ours inside one of Spark's, or a ServerError that says what Spark said.

    Args:
        failure: What Spark raised: text with the trace of the Python process inside.
        what: What failed, to begin the message with.
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
        return ServerError(f"{what} failed: {raised[1]}; look at Spark's log")
    lines = (line.strip(" :\n") for line in text.splitlines())
    first = next(
        (line for line in lines if line and not line.startswith(_CALL)), type(failure).__name__
    )
    return ServerError(f"{what} failed: {first}; look at Spark's log")
