"""Errors of lake tables; file system errors are translated into one sentence that names the path."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pgsluice.errors import ConfigurationError, SluiceError, one_line
from pgsluice.lake.storage import Folder, probe

# delta-rs adds colour codes to its errors, and arrows between their causes.
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳|'")
# Permanent errors: the path, its permissions or the credentials must be changed.
_PERMANENT = re.compile(
    r"permission denied|not a directory|is a directory|read-only file system|not permitted|file exists|too long|"
    r"no_?such_?bucket|no_?such_?container|invalid_?access_?key|signature_?does_?not_?match|access_?denied|"
    r"403 Forbidden|401 Unauthorized|missing region|credential|HTTP status 40[13]",
    re.IGNORECASE,
)
_WAY_OUT = "check the path, its permissions and the free disk space"
_STORE_WAY_OUT = "check the URL and the credentials, region and endpoint in the environment"


class UnsupportedFeatureError(ConfigurationError):
    """A lake table uses a feature or property that is not supported for an operation."""


def require_writable(folder: Folder, what: str) -> None:
    """Create a folder if it does not exist, and check that it is writable.

    Args:
        folder: The folder.
        what: Purpose of the folder, for the error: `lake`, `checkpoint`.

    Raises:
        ConfigurationError: It is not writable.
        SluiceError: An object store failed, perhaps for the moment.
    """
    try:
        probe(folder)
    except OSError as error:
        if error.strerror:
            raise ConfigurationError(
                f"the {what} {folder} is not writable: {error.strerror}; {_WAY_OUT}"
            ) from None
        said = one_line(_DECORATION.sub("", str(error)))
        kind = ConfigurationError if _PERMANENT.search(said) else SluiceError
        raise kind(f"the {what} {folder} is not writable: {said}; {_STORE_WAY_OUT}") from None


@contextmanager
def plain_errors(what: str) -> Iterator[None]:
    """Translate file errors of Python, deltalake and pyarrow.

    Args:
        what: Subject of the message: `the lake table in /lake/orders`.

    Raises:
        ConfigurationError: A permanent error.
        SluiceError: Any other file error.
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
        way_out = _STORE_WAY_OUT if "://" in what else _WAY_OUT
        raise kind(f"{what} cannot be read or written: {said}; {way_out}") from None


def _is_about_files(error: Exception) -> bool:
    if isinstance(error, OSError):  # includes pyarrow's
        return True
    deltalake = sys.modules.get("deltalake.exceptions")
    return deltalake is not None and isinstance(error, deltalake.DeltaError)
