"""Park tables whose changes cannot be applied, record their snapshots, and begin requested rebuilds.

A parked table stays at its last good version while the other tables go on; its changes are in the table of events
only. The state is durable before the update ends, so a restart neither applies nor reports a change twice.

A rebuild is a new snapshot: replaying the stored events would not restore rows from before the capture, values that
`alter table` changed without events, and a key that older events lack. From the first update that finds the request,
changes are applied to an empty staged table, which replaces the other in one commit when the snapshot is complete. The
snapshot begins after the request is durable. So all events of an earlier update, which could not find it, are visible
to the snapshot, and the table is the result of the snapshot and of all later changes.

The pipeline may request a rebuild itself, after a schema change or lost events. The token of such a rebuild is also
that of its snapshot, which `Rebuilds` takes; other snapshots do not complete the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import psycopg

from pgsluice.client.calls import captures
from pgsluice.client.calls import spark as calls
from pgsluice.errors import ChangeError, SchemaChangeError
from pgsluice.lake.completeness import kept_rows, problems
from pgsluice.lake.current_tables import (
    Captured,
    Request,
    Tables,
    TableState,
    described,
    read_states,
    rebuild_command,
    rebuild_requests,
    request_rebuild,
    write_state,
)
from pgsluice.lake.file_errors import UnusableTableError
from pgsluice.lake.names import TableName
from pgsluice.lake.shapes import Shape
from pgsluice.lake.tables import drop_staged, exists, missing
from pgsluice.pipelines.current_state.failures import change_error
from pgsluice.pipelines.current_state.reading import Event, PartitionMarker, marker_of
from pgsluice.spark.access import Access, driver_connection, run
from pgsluice.spark.failure import engine_errors, translated

_log = logging.getLogger(__name__)
# If the schema of a table changes again during each of these rebuilds, it is parked.
_OWN_REBUILDS_MAX = 3
_HINT = "; rebuild the table"


@dataclass
class Parking:
    """The states of a lake's current-state tables; only the pipeline that writes the tables may use it.

    Attributes:
        current: The tables.
        log: Their event log.
        access: Access to the source database.
        fails: True to raise the error of a table instead of parking it.
        rebuilds: True to rebuild a table after a schema change instead of parking it.
    """

    current: Tables
    log: str
    access: Access
    fails: bool = False
    rebuilds: bool = False
    _states: dict[TableName, TableState] = field(default_factory=dict)
    _void: dict[TableName, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._states = read_states(self.current)

    def parked(self) -> list[TableName]:
        """Return the names of the parked tables, in order."""
        return sorted(name for name, state in dict(self._states).items() if state.parked)

    def is_parked(self, name: TableName) -> bool:
        """True if no change of this table may be applied."""
        state = self._states.get(name)
        return state is not None and state.parked is not None

    def warn(self, *, selects: Callable[[TableName], bool], snapshots: Iterable[str] = ()) -> None:
        """Log the tables of the lake that are not complete.

        Args:
            selects: True for tables with a current state.
            snapshots: Tables whose snapshot is about to be taken, in PostgreSQL's notation.
        """
        dsn = self.access.conninfo()
        with driver_connection(self.access, autocommit=True) as database:
            source = run(database, calls.log_incarnation(self.log), dsn)
            shapes = run(database, calls.list_shapes(self.log), dsn)
            tables = run(database, calls.captured_tables(self.log), dsn)
            captured = Captured.with_shapes(tables, shapes)
            names = [run(database, calls.relation_name(table), dsn) for table in snapshots]
            pending = {TableName(*one) for found in names for one in found}
        lost = missing(self.current, self._states)
        found = problems(self.current, self.log, source, captured, self._states, lost)
        for name, problem in found.items():
            if selects(name) and (name not in pending or self.is_parked(name)):
                _log.warning("table not complete: %s", problem, extra={"table": str(name)})

    def deletes_partitions(self) -> bool:
        """True if a capture of the log has the option to delete the rows of dropped partitions."""
        with driver_connection(self.access, autocommit=True) as database:
            found = run(database, captures.list_captures(self.log), self.access.conninfo())
        return any((one.options or {}).get("dropped_partitions") == "delete" for one in found)

    def rebuilding(self) -> list[TableName]:
        """Return the names of the tables whose changes are applied to a staged table."""
        return [name for name, state in self._states.items() if state.rebuilding]

    def own_rebuilds(self) -> dict[TableName, str]:
        """Return the tokens of the rebuilds whose snapshots the pipeline takes itself, by table."""
        states = sorted(dict(self._states).items())
        return {name: str(state.rebuild) for name, state in states if state.rebuilds_itself}

    def begin_rebuilds(self, discard: Callable[[TableName], None]) -> None:
        """Begin the rebuilds requested since the last call.

        Args:
            discard: Removes the staged table of an earlier rebuild; does nothing if it does not exist.
        """
        for name, request in rebuild_requests(self.current).items():
            state = self._states.get(name)
            if state is not None and state.rebuild != request.token:
                self._begin(name, request, discard)

    def _begin(
        self, name: TableName, request: Request, discard: Callable[[TableName], None]
    ) -> None:
        token, reason = request.token, request.reason
        begun_before = self.state(name).own_rebuilds
        with self.guard(name):
            discard(name)
            is_created = exists(self.current.place_of(name))
            begun = replace(self._new_state(name), is_created=is_created, rebuild=token)
            count = 0 if reason is None else begun_before + 1
            self._put(replace(begun, rebuilding=True, rebuild_reason=reason, own_rebuilds=count))
            facts = {"table": str(name), **({"reason": reason} if reason else {})}
            _log.info("rebuild of table begun", extra=facts)
        if (
            self._states[name].rebuild != token
        ):  # it cannot begin, so a later request is another one
            self._put(replace(self._states[name], rebuild=token))

    @contextmanager
    def guard(self, name: TableName) -> Iterator[None]:
        """Park a table if its changes cannot be applied within the block, or begin to rebuild it.

        Raises:
            ChangeError: They cannot, `fails` is set, and it is no schema change with `rebuilds`.
        """
        try:
            yield
        except Exception as failure:
            error = self._change_error(name, failure)
            if error is None:
                raise
            if self.rebuilds and isinstance(error, SchemaChangeError):
                if self.state(name).own_rebuilds < _OWN_REBUILDS_MAX:
                    self._rebuild(name, str(error).removesuffix(_HINT))
                    return
                error = _too_often(str(error).removesuffix(_HINT))
            if self.fails:
                raise error from None
            self._park(name, error)

    def _rebuild(self, name: TableName, reason: str) -> None:
        request = request_rebuild(self.current, name, reason=reason)
        self._begin(name, request, lambda name: drop_staged(self.current, name))

    def give_up(self, name: TableName, token: str, cause: Exception) -> None:
        """Park a table whose snapshot the pipeline cannot take; no changes may be applied meanwhile."""
        state = self.state(name)
        if state.rebuilds_itself and state.rebuild == token:
            why = f"{state.rebuild_reason}; the pipeline cannot rebuild it ({cause})"
            self._park(name, ChangeError(why + _HINT))

    def require_table(self, name: TableName) -> None:
        """Raise if a table that was created does not exist.

        Raises:
            ChangeError: Its rows are lost.
        """
        state, place = self._states.get(name), self.current.place_of(name)
        if state is None or state.rebuilding:
            return
        if state.is_created and not exists(place):
            raise ChangeError(
                f"{described(place)} does not exist; restore it, or rebuild the table"
            )

    def properties(self, name: TableName) -> dict[str, str]:
        """Return the table properties that tell the origin of a table."""
        state = self.state(name)
        return {"pgsluice.log": state.log, "pgsluice.source": state.source}

    def description(self, name: TableName) -> str:
        """Return the description of a table, which tells since when it is complete."""
        state = self.state(name)
        since = state.complete_since
        complete = (
            f"complete since {since}" if since else "rows from before its capture may be missing"
        )
        return "; ".join(filter(None, (f"current state of {name}", complete, kept_rows(state))))

    def record_created(self, name: TableName) -> None:
        """Store durably that a table exists."""
        state = self.state(name)
        if not state.is_created and not state.rebuilding:
            self._put(replace(state, is_created=True))

    def record_shape(self, name: TableName, shape: Shape) -> None:
        """Store durably the shape that the rows of a table have."""
        state = self.state(name)
        stored = shape.to_json()
        if state.shape != stored or state.reshaping is not None:
            self._put(replace(state, shape=stored, reshaping=None))

    def record_names(self, shapes: Mapping[TableName, Iterable[tuple[int, Shape]]]) -> None:
        """Store durably which tables had another name when they were changed, by the shapes of events."""
        named: dict[int | None, set[TableName]] = {}
        for name, found in shapes.items():
            for _, shape in found:
                named.setdefault(shape.table_oid, set()).add(name)
        for name, state in dict(self._states).items():
            others = named.get(state.table_oid, set()) - {name}
            if others and state.other_name is None:
                self._put(replace(state, other_name=str(min(others))))

    def record_reshaping(self, name: TableName, begun: Mapping[str, Any] | None) -> None:
        """Store durably that a commit is about to change the shape of a table, or that none is."""
        self._put(replace(self.state(name), reshaping=begun))

    def void_snapshots(self, name: TableName, before: int) -> None:
        """Ignore snapshots of a table that began before an event: it changed rows that they may have read earlier."""
        self._void[name] = before
        state = self.state(name)
        if state.snapshot is not None:
            self._forget_snapshot(name, state)

    def _forget_snapshot(self, name: TableName, state: TableState) -> None:
        """Ignore a snapshot of a table; if the pipeline took it for a rebuild, let it take another one."""
        reason = state.rebuild_reason
        if not state.rebuilds_itself or reason is None:
            self._put(replace(state, snapshot=None))
        elif state.own_rebuilds >= _OWN_REBUILDS_MAX:
            self._park(name, _too_often(reason))
        else:
            token = request_rebuild(self.current, name, reason=reason).token
            count = state.own_rebuilds + 1
            self._put(replace(state, snapshot=None, rebuild=token, own_rebuilds=count))

    def record_snapshots(
        self, events: Iterable[Event], finish: Callable[[TableName], None] = lambda _: None
    ) -> list[TableName]:
        """Store the begin and end of snapshots among the applied events; return the tables that are complete now.

        Args:
            events: The markers of snapshots, in order.
            finish: Replaces a table by the staged one; may be called again after a crash.
        """
        complete = []
        for event in events:
            marker = marker_of(event)
            if marker is None or self.is_parked(marker.table):
                continue
            name, state = marker.table, self.state(marker.table)
            if state.rebuilds_itself and marker.token != state.rebuild:
                continue
            if marker.begins and event[0] >= self._void.get(name, 0):
                self._put(replace(state, snapshot=marker.token))
            elif marker.begins and state.rebuilds_itself:
                self._forget_snapshot(name, state)
            elif (
                not marker.begins and state.snapshot is not None and marker.token == state.snapshot
            ):
                if state.rebuilding:
                    with self.guard(name):
                        finish(name)
                    if self.is_parked(name):
                        continue
                    is_created = exists(self.current.place_of(name))
                    state = replace(state, rebuilding=False, is_created=is_created)
                since = datetime.fromtimestamp(marker.at_us / 1_000_000, UTC).isoformat()
                done = replace(state, snapshot=None, rebuild_reason=None, own_rebuilds=0)
                self._put(replace(done, complete_since=since))
                complete.append(name)
        return complete

    def record_partitions(self, markers: Iterable[PartitionMarker]) -> list[TableName]:
        """Store which partitions of tables are gone, while the tables may have their rows; return the tables.

        A partition that is attached again is no longer gone if its changes were captured meanwhile. Else its rows in
        the lake are not those in PostgreSQL, and the table is parked or rebuilt as after a schema change.
        """
        changed = []
        for marker in markers:
            name = marker.table
            if name not in self._states or self.is_parked(name):
                continue
            state, oid = self.state(name), str(marker.oid)
            former = dict(state.former_partitions)
            if marker.state in ("attached", "uncaptured"):
                is_known = former.pop(oid, None) is not None
                if marker.state == "uncaptured" or is_known != marker.is_captured:
                    with self.guard(name):
                        raise SchemaChangeError(
                            f"partition {marker.partition} was attached again or had no triggers of the capture, and "
                            f"its rows may differ{_HINT}"
                        )
                    continue
            else:
                former[oid] = {
                    "name": marker.partition,
                    "state": marker.state,
                    "policy": marker.policy,
                }
            self._put(replace(state, former_partitions=former))
            changed.append(name)
        return changed

    def delete_former_partitions(self) -> None:
        """Rebuild the tables with rows of partitions that were dropped or detached, if their policy is `delete`.

        Partitions that are dropped during a rebuild are removed by another one after it.
        """
        for name, state in sorted(self._states.items()):
            gone = [one for one in state.former_partitions.values() if one["policy"] == "delete"]
            if gone and not state.rebuilding and state.parked is None:
                names = ", ".join(f"{one['name']} was {one['state']}" for one in gone[:3])
                more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
                self._rebuild(name, f"partition {names}{more}")

    def _change_error(self, name: TableName, failure: Exception) -> ChangeError | None:
        """Return the error as one of the table, also if Spark's error about a task contains it; None if it is not."""
        if isinstance(failure, UnusableTableError):
            place = self.current.place_of(name)
            return ChangeError(f"{failure}; or remove {place}, and rebuild the table")
        if isinstance(failure, engine_errors()):
            error = translated(failure, "Spark")
            return error if isinstance(error, ChangeError) else None
        return change_error(name, failure)

    def _park(self, name: TableName, error: ChangeError) -> None:
        reason = f"{error}: {rebuild_command(name, self.current)}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._put(replace(self.state(name), parked=reason, parked_at=now, rebuilding=False))
        _log.error("table parked: %s", reason, extra={"table": str(name)})

    def state(self, name: TableName) -> TableState:
        """Return the state of a table; a new one if it has none."""
        return self._states.get(name) or self._new_state(name)

    def _new_state(self, name: TableName) -> TableState:
        dsn = self.access.conninfo()
        with driver_connection(self.access, autocommit=True) as database:
            source = run(database, calls.log_incarnation(self.log), dsn)
            captured = _captured(database, self.log, dsn)
        oids = {table.name: table.oid for table in captured}
        return TableState(name=name, log=self.log, source=source, oid=oids.get(name))

    def _put(self, state: TableState) -> None:
        write_state(self.current, state)
        self._states[state.name] = state

    def resolved(self, joined: Collection[str]) -> dict[str, TableName]:
        """Return the tables of names as `pgq.logutriga` writes them; park those that such a name does not tell apart.

        Args:
            joined: `schema.table`, unquoted.

        Raises:
            ChangeError: A name has several tables, and `fails` is set.
        """
        found = {text: TableName(*text.split(".")) for text in joined if text.count(".") == 1}
        unclear = sorted(text for text in joined if text not in found)
        if not unclear:
            return found
        dsn = self.access.conninfo()
        with driver_connection(self.access, autocommit=True) as database:
            captured = _captured(database, self.log, dsn)
        for text in unclear:
            names = _named(text, captured, self._states)
            if len(names) == 1:
                found[text] = names[0]
                continue
            for name in names:
                with self.guard(name):
                    raise ChangeError(
                        f"pgq.logutriga writes the same name for the changes of {' and '.join(map(str, names))}; "
                        "capture them with sluice.capture, and rebuild the tables"
                    )
        return found


def _too_often(reason: str) -> ChangeError:
    return ChangeError(
        f"{reason}; its schema changed again during {_OWN_REBUILDS_MAX} rebuilds by the pipeline{_HINT}"
    )


def _captured(database: psycopg.Connection[Any], log: str, dsn: str) -> list[Captured]:
    return [Captured.of(row) for row in run(database, calls.captured_tables(log), dsn)]


def _named(
    text: str, captured: Collection[Captured], states: Collection[TableName]
) -> list[TableName]:
    """Return the tables that an unquoted name may mean: those with such a trigger, or else all others known.

    Of a table that was dropped, the first of the names that it may have had.
    """
    joined = [table.name for table in captured if table.names_joined]
    for known in (joined, {*states, *(table.name for table in captured)}):
        names = sorted(name for name in known if f"{name.schema}.{name.table}" == text)
        if names:
            return names
    return [TableName(*text.split(".", 1))]
