"""Park tables whose changes cannot be applied, record their snapshots, and begin requested rebuilds.

A parked table stays at its last good version while the other tables go on; its changes are in the table of events
only. The state is durable before the update ends, so a restart neither applies nor reports a change twice.

A rebuild is a new snapshot: replaying the stored events would not restore rows from before the capture, values that
`alter table` changed without events, and a key that older events lack. From the first update that finds the request,
changes are applied to an empty table aside, which replaces the other in one commit when the snapshot is complete. The
snapshot begins after the request is durable. So all events of an earlier update, which could not find it, are visible
to the snapshot, and the table is the result of the snapshot and of all later changes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pgsluice.client.calls import spark as calls
from pgsluice.errors import ChangeError
from pgsluice.lake.current_tables import (
    Captured,
    Tables,
    TableState,
    described,
    lake_of,
    place_of,
    problems,
    read_states,
    rebuild_requests,
    write_state,
)
from pgsluice.lake.file_errors import UnsupportedFeatureError
from pgsluice.lake.tables import exists, missing
from pgsluice.pipelines.current_state.reading import SNAPSHOT_EVENT, Event
from pgsluice.spark.access import Access, driver_connection, run
from pgsluice.spark.failure import engine_errors, translated

_log = logging.getLogger(__name__)


@dataclass
class Parking:
    """The states of a lake's current-state tables; only the pipeline that writes the tables may use it.

    Attributes:
        current: The tables.
        log: Their event log.
        access: Access to the source database.
        fails: True to raise the error of a table instead of parking it.
    """

    current: Tables
    log: str
    access: Access
    fails: bool = False
    _states: dict[str, TableState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._states = read_states(self.current)

    def parked(self) -> list[str]:
        """Return the names of the parked tables, in order."""
        return sorted(name for name, state in dict(self._states).items() if state.parked)

    def is_parked(self, name: str) -> bool:
        """True if no change of this table may be applied."""
        state = self._states.get(name)
        return state is not None and state.parked is not None

    def warn(self, *, wanted: Callable[[str], bool], snapshots: Iterable[str] = ()) -> None:
        """Log the tables of the lake that are not complete.

        Args:
            wanted: True for tables with a current state.
            snapshots: Tables whose snapshot is about to be taken, in PostgreSQL's notation.
        """
        dsn = self.access.conninfo()
        with driver_connection(self.access, autocommit=True) as database:
            source = run(database, calls.log_incarnation(self.log), dsn)
            captured = [
                Captured(*row) for row in run(database, calls.captured_tables(self.log), dsn)
            ]
            pending = {run(database, calls.relation_name(table), dsn) for table in snapshots}
        lost = missing(self.current, self._states)
        found = problems(self.current, self.log, source, captured, self._states, lost)
        for name, problem in found.items():
            if wanted(name) and (name not in pending or self.is_parked(name)):
                _log.warning("table not complete: %s", problem, extra={"table": name})

    def rebuilding(self) -> list[str]:
        """Return the names of the tables whose changes are applied to a table aside."""
        return [name for name, state in self._states.items() if state.rebuilding]

    def begin_rebuilds(self, discard: Callable[[str], None]) -> None:
        """Begin the rebuilds requested since the last call.

        Args:
            discard: Removes the table aside of an earlier rebuild; does nothing if it does not exist.
        """
        for name, token in rebuild_requests(self.current).items():
            state = self._states.get(name)
            if state is None or state.rebuild == token:
                continue
            discard(name)
            is_created = exists(place_of(self.current, name))
            begun = replace(self._new_state(name), is_created=is_created)
            self._put(replace(begun, rebuild=token, rebuilding=True))
            _log.info("rebuild of table begun", extra={"table": name})

    @contextmanager
    def guard(self, name: str) -> Iterator[None]:
        """Park a table if its changes cannot be applied within the block.

        Raises:
            ChangeError: They cannot, and `fails` is set.
        """
        try:
            yield
        except Exception as failure:
            error = self._change_error(name, failure)
            if error is None:
                raise
            if self.fails:
                raise error from None
            self._park(name, error)

    def require_table(self, name: str) -> None:
        """Raise if a table that was created does not exist.

        Raises:
            ChangeError: Its rows are lost.
        """
        state, place = self._states.get(name), place_of(self.current, name)
        if state is None or state.rebuilding:
            return
        if state.is_created and not exists(place):
            raise ChangeError(
                f"{described(place)} does not exist; restore it, or rebuild the table"
            )

    def properties(self, name: str) -> dict[str, str]:
        """Return the table properties that tell the origin of a table."""
        state = self._state(name)
        return {"pgsluice.log": state.log, "pgsluice.source": state.source}

    def description(self, name: str) -> str:
        """Return the description of a table, which tells since when it is complete."""
        since = self._state(name).complete_since
        if since is None:
            return f"current state of {name}; rows from before its capture may be missing"
        return f"current state of {name}; complete since {since}"

    def note_created(self, name: str) -> None:
        """Store durably that a table exists."""
        state = self._state(name)
        if not state.is_created and not state.rebuilding:
            self._put(replace(state, is_created=True))

    def note_snapshots(
        self, events: Iterable[Event], finish: Callable[[str], None] = lambda _: None
    ) -> list[str]:
        """Store the begin and end of snapshots among the applied events; return the tables that are complete now.

        Args:
            events: The marks of snapshots, in order.
            finish: Replaces a table by the one aside; may be called again after a crash.
        """
        complete = []
        for _, at_us, kind, data, name, _ in events:
            if kind != SNAPSHOT_EVENT or name is None or self.is_parked(name):
                continue
            mark, state = json.loads(data or "{}"), self._state(name)
            if mark.get("state") == "began":
                self._put(replace(state, snapshot=mark.get("token")))
            elif state.snapshot is not None and mark.get("token") == state.snapshot:
                if state.rebuilding:
                    with self.guard(name):
                        finish(name)
                    if self.is_parked(name):
                        continue
                    is_created = exists(place_of(self.current, name))
                    state = replace(state, rebuilding=False, is_created=is_created)
                since = datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat()
                self._put(replace(state, snapshot=None, complete_since=since))
                complete.append(name)
        return complete

    def _change_error(self, name: str, failure: Exception) -> ChangeError | None:
        """Return the ChangeError that this is, or that Spark's error about a task contains."""
        if isinstance(failure, ChangeError):
            return failure
        if isinstance(failure, UnsupportedFeatureError):
            place = place_of(self.current, name)
            return ChangeError(f"{failure}; or remove {place}, and rebuild the table")
        if isinstance(failure, engine_errors()):
            error = translated(failure, "Spark")
            return error if isinstance(error, ChangeError) else None
        return None

    def _park(self, name: str, error: ChangeError) -> None:
        way_out = f"pgsluice lake rebuild {name} --lake {lake_of(self.current)}"
        reason = f"{error}: {way_out}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._put(replace(self._state(name), parked=reason, parked_at=now, rebuilding=False))
        _log.error("table parked: %s", reason, extra={"table": name})

    def _state(self, name: str) -> TableState:
        return self._states.get(name) or self._new_state(name)

    def _new_state(self, name: str) -> TableState:
        dsn = self.access.conninfo()
        with driver_connection(self.access, autocommit=True) as database:
            source = run(database, calls.log_incarnation(self.log), dsn)
            captured = run(database, calls.captured_tables(self.log), dsn)
        oids = {table: oid for table, oid, *_ in captured}
        return TableState(name=name, log=self.log, source=source, oid=oids.get(name))

    def _put(self, state: TableState) -> None:
        write_state(self.current, state)
        self._states[state.name] = state
