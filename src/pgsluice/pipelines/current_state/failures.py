"""Tell errors of one table from those of the server, the lake's store and the process, which concern all tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from pgsluice.errors import ChangeError, SluiceError, one_line
from pgsluice.lake.file_errors import UnusableTableError, is_of_store
from pgsluice.lake.names import TableName

SCRATCH = "_collapsed"  # folder for the rows of parts
_OF_PROCESS = (psycopg.Error, MemoryError)


@contextmanager
def errors_of(table: TableName) -> Iterator[None]:
    """Raise each error of the changes or files of a table as a ChangeError; leave others as they are.

    Raises:
        ChangeError: A retry would fail again.
    """
    try:
        yield
    except Exception as failure:
        error = change_error(table, failure)
        if error is None:
            raise
        raise error from failure


def change_error(table: TableName, failure: Exception) -> ChangeError | None:
    """Return the error as one of the changes or files of a table.

    Returns:
        None if it is of the server, the store or the process: a retry may succeed, or all tables fail.
    """
    if isinstance(failure, ChangeError):
        return failure
    if isinstance(failure, UnusableTableError):
        return ChangeError(str(failure))
    if isinstance(failure, SluiceError):
        # The others have classes of their own.
        return ChangeError(str(failure)) if type(failure) is SluiceError else None
    if isinstance(failure, _OF_PROCESS) or is_of_store(failure):
        return None
    if isinstance(failure, FileNotFoundError) and SCRATCH in str(failure):
        return None
    return ChangeError(
        f"the changes of {table} cannot be applied ({type(failure).__name__}): {one_line(str(failure))}; remove the "
        "cause, and rebuild the table"
    )
