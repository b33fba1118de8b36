"""Errors of files and folders, as one sentence that names the place."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgsluice.errors import ConfigurationError, SluiceError, one_line

# delta-rs colours its errors, and draws arrows between their causes.
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳|'")
_PROBE_BYTES = 4096
# Those that no retry helps: the path or its rights must be changed.
_PERMANENT = re.compile(
    r"permission denied|not a directory|is a directory|read-only file system|not permitted|file exists|too long",
    re.IGNORECASE,
)
_WAY_OUT = "check the path, its rights and the space that is left"


def require_writable(folder: Path, what: str) -> None:
    """Make a folder if it is not there, and see that files can be written into it.

    Args:
        folder: Absolute.
        what: What it is for, to be named in the error: `lake`, `checkpoint`.

    Raises:
        ConfigurationError: They cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise ConfigurationError(
            f"the {what} {folder} cannot be written: {error.strerror}; {_WAY_OUT}"
        ) from None


@contextmanager
def plain_errors(what: str) -> Iterator[None]:
    """Turn errors of the file system, and of deltalake and pyarrow about it, into errors of ours.

    Args:
        what: What was done, to begin the message with: `the lake table in /lake/orders`.

    Raises:
        ConfigurationError: One that no retry helps.
        SluiceError: Any other.
    """
    try:
        yield
    except SluiceError:
        raise
    except Exception as error:
        if not _is_about_files(error):
            raise
        said = one_line(_DECORATION.sub("", str(error)))
        kind = ConfigurationError if _PERMANENT.search(said) else SluiceError
        raise kind(f"{what} cannot be read or written: {said}; {_WAY_OUT}") from None


def _is_about_files(error: Exception) -> bool:
    if isinstance(error, OSError):  # those of pyarrow are, too
        return True
    deltalake = sys.modules.get("deltalake.exceptions")
    return deltalake is not None and isinstance(error, deltalake.DeltaError)
