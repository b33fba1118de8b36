"""The rows that tables have at the start, as events among those of their changes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pgsluice.client.calls import captures
from pgsluice.pipelines.current_state.table import table_folder
from pgsluice.spark.access import Access, driver_connection, run

_ROWS_AT_ONCE = 1000  # locked against change until the commit, which is after 20 ms


class Snapshots:
    """Snapshots of tables that a pipeline takes once, each in many short transactions.

    How far each is stands in a file: after a crash it goes on there. Rows that come a second time do no harm.

    Args:
        tables: As PostgreSQL reads names: `account`, `public.account`.
        log: The event log that captures them.
        notes: The folder of the files.
    """

    def __init__(self, tables: Iterable[str], log: str, notes: Path) -> None:
        self.tables = tuple(tables)
        self.log = log
        self._notes = notes

    def pending(self) -> list[str]:
        """The tables whose snapshot is not finished."""
        return [table for table in self.tables if not self._note(table).get("done")]

    def take(self, access: Access, stop: threading.Event) -> None:
        """Append the rows of all pending tables to the log; what is left when `stop` is set stays pending.

        Raises:
            CaptureError: A table is not captured into this log.
            PrivilegeError: The role may not take snapshots.
        """
        with driver_connection(access, autocommit=True) as database:
            for table in self.pending():
                after = self._note(table).get("after")
                while not stop.is_set():
                    call = captures.capture_snapshot(
                        table, self.log, after_key=after, qty=_ROWS_AT_ONCE
                    )
                    after = run(database, call, access.conninfo())
                    self._write(table, {"after": after, "done": after is None})
                    if after is None:
                        break

    def _path(self, table: str) -> Path:
        folder = table_folder(self._notes, table)
        return folder.with_name(f"{folder.name}.json")

    def _note(self, table: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self._path(table).read_text()))
        except FileNotFoundError:
            return {}

    def _write(self, table: str, note: dict[str, Any]) -> None:
        path = self._path(table)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        with new.open("w") as file:
            json.dump(note, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
