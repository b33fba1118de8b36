"""Errors of lake tables; file system errors are translated into one sentence that names the path."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pgsluice.errors import ConfigurationError, SluiceError, StoreError, one_line
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
_HINT = "check the path, its permissions and the free disk space"
_STORE_HINT = "check the URL and the credentials, region and endpoint in the environment"


_FILES_HINT = "restore the damaged files, or rebuild the table"
# Texts of errors that have no class of their own, see `is_of_store`.
_OF_STORE = re.compile(
    r"object store error|generic (?!DeltaTable)\w+ error|\(os error \d+\)|resources exhausted|error sending request",
    re.IGNORECASE,
)
_OF_CONTENT = re.compile(
    r"thrift|page header|requested range was invalid|corrupt|decompress|unexpected end of stream|not found",
    re.IGNORECASE,
)


class UnusableTableError(ConfigurationError):
    """A lake table has features that are not supported for an operation, or files that are missing or damaged."""


def require_writable(folder: Folder, what: str) -> None:
    """Create a folder if it does not exist, and check that it is writable.

    Args:
        folder: The folder.
        what: Purpose of the folder, for the error: `lake`, `checkpoint`.

    Raises:
        ConfigurationError: It is not writable.
        StoreError: An object store failed, perhaps for the moment.
    """
    try:
        probe(folder)
    except OSError as error:
        if error.strerror:
            raise ConfigurationError(
                f"the {what} {folder} is not writable: {error.strerror}; {_HINT}"
            ) from None
        reason = one_line(_DECORATION.sub("", str(error)))
        kind = ConfigurationError if _PERMANENT.search(reason) else StoreError
        raise kind(f"the {what} {folder} is not writable: {reason}; {_STORE_HINT}") from None


@contextmanager
def plain_errors(what: str) -> Iterator[None]:
    """Translate file errors of Python, deltalake and pyarrow.

    Args:
        what: Subject of the message: `the lake table in /lake/orders`.

    Raises:
        UnusableTableError: Files are damaged.
        ConfigurationError: Another permanent error.
        StoreError: Any other file error.
    """
    try:
        yield
    except SluiceError:
        raise
    except Exception as error:
        if not _is_about_files(error):
            raise
        reason = one_line(_DECORATION.sub("", str(error)))
        if not (isinstance(error, FileNotFoundError) or is_of_store(error)):
            kind_name = type(error).__name__
            raise UnusableTableError(
                f"{what} cannot be read or written ({kind_name}): {reason}; {_FILES_HINT}"
            ) from None
        kind = ConfigurationError if _PERMANENT.search(reason) else StoreError
        hint = _STORE_HINT if "://" in what else _HINT
        raise kind(f"{what} cannot be read or written: {reason}; {hint}") from None


def is_of_store(error: Exception) -> bool:
    """True if a file error is of the store, so that the same call may succeed later; False if it is of the files.

    Neither delta-rs nor pyarrow has classes for this: damaged files, requests that fail and memory that runs out are
    all OSError or DeltaError, without an errno. FileNotFoundError is of the files.
    """
    if isinstance(error, FileNotFoundError):
        return False
    text = str(error)
    if isinstance(error, OSError):
        return error.errno is not None or not _OF_CONTENT.search(text)
    if _is_commit_conflict(error):
        return True
    return bool(_OF_STORE.search(text)) and not _OF_CONTENT.search(text)


def _is_about_files(error: Exception) -> bool:
    if isinstance(error, OSError):  # includes pyarrow's
        return True
    deltalake = sys.modules.get("deltalake.exceptions")
    return deltalake is not None and isinstance(error, deltalake.DeltaError)


def _is_commit_conflict(error: Exception) -> bool:
    deltalake, pyiceberg = map(sys.modules.get, ("deltalake.exceptions", "pyiceberg.exceptions"))
    if deltalake is not None and isinstance(error, deltalake.CommitFailedError):
        return True
    return pyiceberg is not None and isinstance(
        error,
        pyiceberg.CommitFailedException
        | pyiceberg.CommitStateUnknownException
        | pyiceberg.RESTError,
    )
