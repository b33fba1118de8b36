"""Incremental snapshots: existing rows appended to the log as events, among those of their changes.

An event marks the begin of a snapshot and another its end, with the same token. A lake that has applied both has all
rows between them, so the whole table.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import psycopg

from pgsluice.client.calls import captures, pgq
from pgsluice.client.calls import spark as calls
from pgsluice.client.calls.samples import limit_statements
from pgsluice.errors import (
    CaptureError,
    ConfigurationError,
    PrivilegeError,
    ServerError,
    SluiceError,
)
from pgsluice.lake.current_tables import Captured, read_states, request_rebuild
from pgsluice.lake.names import TableName, file_name
from pgsluice.lake.storage import remove_folder, write_whole
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state.parking import Parking
from pgsluice.pipelines.current_state.reading import SNAPSHOT_EVENT
from pgsluice.sessions import has_limits
from pgsluice.spark.access import Access, access_for, driver_connection, run

_log = logging.getLogger(__name__)
# Classes of SQLSTATE: feature not supported, data, integrity, schema, syntax or access, limits, raised by a function,
# damaged data.
_OF_STATEMENT = ("0A", "22", "23", "3F", "42", "54", "P0", "XX")
_ROWS_AT_ONCE = 1000  # locked against updates until the commit, about 20 ms


def snapshot(table: str, log: str, *, dsn: str | None = None) -> None:
    """Append the rows of a captured table to its log, so that current-state tables of any lake complete their rows.

    Writers of the table are not blocked, and pipelines may run. The snapshot consists of short transactions. If it is
    interrupted, take it again: repeated rows are idempotent.

    Args:
        table: Table in PostgreSQL's notation.
        log: Event log that captures it.
        dsn: DSN; None: by the rule of `pgsluice.connection`.

    Raises:
        CaptureError: The table is not captured into this log.
        PrivilegeError: The role may not take snapshots.
    """
    with ExitStack() as cleanup:
        access = access_for(dsn, cleanup)
        database = cleanup.enter_context(driver_connection(access, autocommit=True))
        token, after = uuid.uuid4().hex, None
        while True:
            after = _append(database, access, table, log, token, after)
            if after is None:
                return


def rebuild(table: str, lake: str | Path, *, dsn: str | None = None) -> None:
    """Rebuild a current-state table by a new snapshot, while the pipeline `changes` runs or before its next run.

    From its next update on, the pipeline no longer parks the table, and fills another one from the snapshot and all
    later changes. When it has caught up with the end of this call, one commit replaces the rows of the table.

    Args:
        table: Table as `schema.table`, with double quotes around a part that contains a dot.
        lake: Lake of the pipeline: a folder, or `iceberg:catalogue/namespace`.
        dsn: DSN; None: by the rule of `pgsluice.connection`.

    Raises:
        ConfigurationError: The lake has no such table.
        CaptureError: The table is not captured into the log of the lake by `sluice.capture`.
        PrivilegeError: The role may not take snapshots.
    """
    current, name = tables_in(lake), TableName.parse(table)
    states = read_states(current)
    if name not in states:
        raise ConfigurationError(
            f"the lake {current.lake} has no current-state table {name}; it has "
            f"{', '.join(map(str, states)) or 'none'}"
        )
    log = states[name].log
    with ExitStack() as cleanup:
        access = access_for(dsn, cleanup)
        database = cleanup.enter_context(driver_connection(access, autocommit=True))
        _require_snapshots(database, access, name, log)
        request_rebuild(current, name)  # durable before the first row is read: see `parking`
    snapshot(str(name), log, dsn=dsn)


class Snapshots:
    """Incremental snapshots of tables, each taken once, in many short transactions.

    Progress is stored in a file, from which it continues after a crash. Repeated rows are idempotent.

    Args:
        tables: Names in PostgreSQL's notation: `account`, `public.account`.
        log: Event log that captures them.
        folder: Folder of the progress files.

    Attributes:
        failures: Why snapshots cannot be taken, by table; a restart tries again.
    """

    def __init__(self, tables: Iterable[str], log: str, folder: Path) -> None:
        self.tables = tuple(tables)
        self.log = log
        self._folder = folder
        self.failures: dict[str, SluiceError] = {}

    def pending(self) -> list[str]:
        """Return the tables whose snapshot is unfinished."""
        return [table for table in self.tables if not self._progress(table).get("done")]

    def forget(self) -> None:
        """Take all snapshots again, as events of them may be lost."""
        remove_folder(self._folder)

    def is_taken(self) -> bool:
        """True if each snapshot is finished, or cannot be taken."""
        return self.failures.keys() >= set(self.pending())

    def take(self, access: Access, stop: threading.Event) -> None:
        """Append the rows of all pending tables to the log; after `stop` is set the rest stays pending.

        The error of one table, such as CaptureError, is in `failures`, and the others go on.
        """
        with driver_connection(access, autocommit=True) as database:
            for table in self.pending():
                try:
                    self._take(database, access, table, stop)
                except SluiceError as error:
                    if not _is_of_table(error):
                        raise
                    self.failures[table] = error
                    _log.error("snapshot not taken: %s", error, extra={"table": table})

    def _take(
        self, database: psycopg.Connection[Any], access: Access, table: str, stop: threading.Event
    ) -> None:
        progress = self._progress(table)
        token, after = progress.get("token") or uuid.uuid4().hex, progress.get("after")
        self._append_all(database, access, table, token, after, stop.is_set)

    def _append_all(
        self,
        database: psycopg.Connection[Any],
        access: Access,
        table: str,
        token: str,
        after: dict[str, str] | None,
        is_stopped: Callable[[], bool],
    ) -> None:
        while not is_stopped():
            after = _append(database, access, table, self.log, token, after)
            self._write(table, {"token": token, "after": after, "done": after is None})
            if after is None:
                return

    def _path(self, table: str) -> Path:
        return self._folder / f"{file_name(table)}.json"

    def _progress(self, table: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self._path(table).read_text()))
        except FileNotFoundError:
            return {}

    def _write(self, table: str, progress: dict[str, Any]) -> None:
        write_whole(self._folder, self._path(table).name, json.dumps(progress).encode())


class Rebuilds(Snapshots):
    """Snapshots of the tables that a pipeline rebuilds itself, each taken once per rebuild.

    Args:
        parking: The states of the tables.
        selects: True for tables with a current state.
        folder: Folder of the progress files.
    """

    def __init__(
        self, parking: Parking, selects: Callable[[TableName], bool], folder: Path
    ) -> None:
        super().__init__((), parking.log, folder)
        self._parking, self._selects = parking, selects

    def unfinished(self) -> dict[TableName, str]:
        """Return the tables that are not complete yet, with the tokens of their rebuilds."""
        return {n: token for n, token in self._parking.own_rebuilds().items() if self._selects(n)}

    def may_begin(self) -> bool:
        """True if the pipeline may rebuild tables, or has begun to."""
        parking = self._parking
        return parking.rebuilds or bool(self.unfinished()) or parking.deletes_partitions()

    def pending(self) -> list[str]:
        return [
            str(name) for name, token in self.unfinished().items() if not self._is_done(name, token)
        ]

    def _is_done(self, name: TableName, token: str) -> bool:
        progress = self._progress(str(name))
        return bool(progress.get("done")) and progress.get("token") == token

    def take_next(
        self,
        access: Access,
        stop: threading.Event,
        exclusively: Callable[[], AbstractContextManager[object]],
    ) -> None:
        """Take the pending snapshots; park the tables whose snapshot cannot be taken.

        Args:
            access: Access to the source database.
            stop: Leaves the rest pending once it is set.
            exclusively: Returns a context manager during which no changes are applied.
        """
        pending = list(map(TableName.parse, self.pending()))
        if not pending:
            return
        with driver_connection(access, autocommit=True) as database:
            for name in pending:
                token = self.unfinished().get(name)
                if token is None or stop.is_set():
                    continue
                try:
                    self._take_for(database, access, name, token, stop)
                except SluiceError as error:
                    if not _is_of_table(error):
                        raise
                    with exclusively():
                        self._parking.give_up(name, token, error)

    def _take_for(
        self,
        database: psycopg.Connection[Any],
        access: Access,
        name: TableName,
        token: str,
        stop: threading.Event,
    ) -> None:
        def is_stopped() -> bool:
            return stop.is_set() or self.unfinished().get(name) != token

        _require_snapshots(database, access, name, self.log)
        progress = self._progress(str(name))
        after = progress.get("after") if progress.get("token") == token else None
        self._append_all(database, access, str(name), token, after, is_stopped)


def _require_snapshots(
    database: psycopg.Connection[Any], access: Access, name: TableName, log: str
) -> None:
    """Raise if the rows of a table cannot be appended to a log.

    Raises:
        CaptureError: It is not captured by `sluice.capture`.
    """
    tables = run(database, calls.captured_tables(log), access.conninfo())
    if not any(one.name == name and one.takes_snapshots for one in map(Captured.of, tables)):
        raise CaptureError(
            f"table {name} is not captured into event log {log!r} by sluice.capture, so it cannot be rebuilt; capture "
            "it with sluice.capture"
        )


def _is_of_table(error: SluiceError) -> bool:
    """True if a snapshot failed for its table; False if the server failed, so that a retry may succeed."""
    if isinstance(error, CaptureError | PrivilegeError):
        return True
    return type(error) is ServerError and (error.sqlstate or "")[:2] in _OF_STATEMENT


def _append(
    database: psycopg.Connection[Any],
    access: Access,
    table: str,
    log: str,
    token: str,
    after: dict[str, str] | None,
) -> dict[str, str] | None:
    """Append the next rows of a snapshot; return the last key, None at the end."""
    dsn = access.conninfo()
    with database.transaction():
        if has_limits(database):
            run(database, limit_statements(0), dsn)
        call = captures.capture_snapshot(table, log, after_key=after, qty=_ROWS_AT_ONCE)
        last = run(database, call, dsn)
        ((schema_name, table_name),) = run(database, calls.relation_name(table), dsn)
        name = str(TableName(schema_name, table_name))
        for state, is_now in (("began", after is None), ("ended", last is None)):
            if is_now:
                marker = json.dumps({"state": state, "token": token})
                event = pgq.insert_event(log, SNAPSHOT_EVENT, marker, ev_extra1=name)
                run(database, event, dsn)
    return last
