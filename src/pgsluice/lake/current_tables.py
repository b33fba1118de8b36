"""Addresses, column names and states of current-state tables, without their formats.

The state of a table is a file next to it, `_state/<table>.json`, which only the pipeline `changes` writes. A request to
rebuild a table is another one, `_rebuild/<table>.json`, which `pgsluice lake rebuild` or the pipeline writes. A request
counts until the state has its token, so a crash between reading and applying it does no harm.
"""

from __future__ import annotations

import json
import re
import shlex
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any
from urllib.parse import unquote

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress, IcebergNamespace
from pgsluice.lake.names import TableName, folder_name, iceberg_name
from pgsluice.lake.shapes import Shape
from pgsluice.lake.storage import Folder, files_in, read_bytes, remove, write_whole

SEQ, CHANGED_AT, DELETED = "_seq", "_changed_at", "_deleted"
# Identifies equal rows of a table without a key; tells infinite dates and timestamps in a key, empty without any.
ROW = "_row"
BUCKET = "_bucket"
OWN_COLUMNS = (SEQ, CHANGED_AT, DELETED, ROW, BUCKET)

_STATES, _REQUESTS, _STAGED = "_state", "_rebuild", "_rebuilding"
_APPLIED, _GAPS = "_applied.json", "_gaps.json"
_SEPARATOR = "__"
# Delta refuses all of these but the percent sign, which makes the encoding reversible, and the backtick, which delta-rs
# does not quote in a merge.
_ENCODED = re.compile(r"[ ,;{}()\n\t=%`]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """State of a current-state table.

    Attributes:
        name: The table in PostgreSQL.
        log: Event log of its changes.
        source: Identity of that log, see `sluice.log_incarnation`.
        oid: Id of the table in PostgreSQL, which a rename keeps; None if unknown.
        is_created: True if the lake table has been created.
        parked: Reason why no change is applied any more, with the solution; None if changes are applied.
        parked_at: Time of parking in ISO 8601.
        snapshot: Token of the snapshot that began last.
        complete_since: Time in ISO 8601 of the end of the snapshot that made the table complete; None if it may lack
            rows from before its capture.
        rebuild: Token of the last rebuild that began.
        rebuilding: True until the rebuilt rows replace those of the table; changes are applied to the rebuilt rows.
        shape: Shape of the rows in the lake, see `Shape.to_json`; None before the first change.
        reshaping: Shape that a commit is about to give the table, with the number that the commit records.
        rebuild_reason: Reason why the pipeline itself rebuilds the table; None if it does not.
        own_rebuilds: Number of rebuilds that the pipeline itself has begun since the table was complete.
        former_partitions: Dropped and detached partitions whose rows the table may have, by id: `name`, `state` and
            `policy`.
        other_name: Another name that the table had when it was changed, in SQL; None if it had none since its rebuild.
    """

    name: TableName
    log: str
    source: str = ""
    oid: int | None = None
    is_created: bool = False
    parked: str | None = None
    parked_at: str | None = None
    snapshot: str | None = None
    complete_since: str | None = None
    rebuild: str | None = None
    rebuilding: bool = False
    shape: Mapping[str, Any] | None = None
    reshaping: Mapping[str, Any] | None = None
    rebuild_reason: str | None = None
    own_rebuilds: int = 0
    former_partitions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    other_name: str | None = None

    @property
    def table_oid(self) -> int | None:
        """The id of the table in PostgreSQL; None if unknown."""
        return self.oid if self.shape is None else self.shape["table_oid"]

    @property
    def rebuilds_itself(self) -> bool:
        """True if the pipeline rebuilds the table, and takes the snapshot itself."""
        return self.rebuilding and self.rebuild_reason is not None


@dataclass(frozen=True, slots=True)
class Request:
    """A requested rebuild.

    Attributes:
        token: Identifies it.
        reason: Reason why the pipeline itself requested it; None if a command did.
    """

    token: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that the log removed before they were in the lake.

    Attributes:
        after: Position of the last events before the gap, as in the checkpoint.
        found_at: Time in ISO 8601 at which the pipeline skipped it.
        reason: What the pipeline found.
        planned: End of the batch that was planned after that position, if it is in the gap too; else empty.
    """

    after: str
    found_at: str
    reason: str
    planned: str = ""

    def __str__(self) -> str:
        return f"events after {self.after} are missing, skipped at {self.found_at}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Applied:
    """Last micro-batch in all current-state tables of a lake, while the changes of later ones wait for an update.

    Attributes:
        app_id: Id of the writing application.
        version: The micro-batch; -1 if none.
    """

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Captured:
    """A table in PostgreSQL with triggers that append its changes to a log.

    Attributes:
        name: The table.
        oid: Its id.
        takes_snapshots: True if `sluice.capture_snapshot` can append its rows; False for a partition, and for a table
            with triggers of PgQ.
        uncovered: Partitions without these triggers, in PostgreSQL's notation.
        is_detached: True for a former partition of a captured table.
        names_joined: True if its events tell its name only as `schema.table`, unquoted: those of `pgq.logutriga`.
        problems: Reasons why changes are not captured or rows differ, each with the solution.
        shape: Its columns now; None if unknown.
    """

    name: TableName
    oid: int
    takes_snapshots: bool
    uncovered: Sequence[str] = ()
    is_detached: bool = False
    names_joined: bool = False
    problems: Sequence[str] = ()
    shape: Shape | None = None

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Captured:
        """Return a row of the call `captured_tables`."""
        schema, table, *facts = row
        return cls(TableName(schema, table), *facts)

    @classmethod
    def with_shapes(
        cls, tables: Iterable[tuple[Any, ...]], shapes: Iterable[tuple[Any, ...]]
    ) -> list[Captured]:
        """Return the rows of the calls `captured_tables` and `list_shapes` together."""
        found = {TableName(schema, name): Shape.of(*facts) for schema, name, *facts in shapes}
        every = map(cls.of, tables)
        return [replace(table, shape=found.get(table.name)) for table in every]


@dataclass(frozen=True, slots=True)
class Tables:
    """The current-state tables of a lake: those in its folder `current`, or in a namespace of an Iceberg catalogue.

    Attributes:
        lake: Address of the lake.
        state_folder: Folder of their states, requests and scratch files; in a folder also that of the tables.
        are_staged: True for the tables that rebuilds fill.
    """

    lake: Folder | IcebergNamespace
    state_folder: Folder
    are_staged: bool = False

    def __str__(self) -> str:
        return str(self.lake)

    @property
    def events(self) -> Folder | IcebergAddress:
        """The address of the table of events."""
        return self.lake / "events"

    @property
    def rejects(self) -> Folder | IcebergAddress:
        """The address of the table of values that do not fit."""
        return self.lake / "rejects"

    @property
    def folder(self) -> Folder:
        """The folder of the tables that are in a folder."""
        return self.state_folder / _STAGED if self.are_staged else self.state_folder

    @property
    def prefix(self) -> str:
        """Begin of the names of the tables that are in a namespace."""
        return f"{_STAGED}{_SEPARATOR}" if self.are_staged else ""

    def staged(self) -> Tables:
        """Return the tables that rebuilds fill."""
        return replace(self, are_staged=True)

    def place_of(self, name: TableName) -> Folder | IcebergAddress:
        """Return the address of a table."""
        if isinstance(self.lake, IcebergNamespace):
            return self.lake / (self.prefix + iceberg_name(name))
        return self.folder / folder_name(name)


def described(place: Folder | IcebergAddress) -> str:
    """Return an address for errors."""
    kind = "table" if isinstance(place, IcebergAddress) else "folder"
    return f"the {kind} {place}"


def lake_column(name: str) -> str:
    """Return the name in the lake of a captured column: percent-encoded where Delta or pgsluice reserve characters."""
    encoded = _ENCODED.sub(lambda found: f"%{ord(found[0]):02X}", name)
    # For pyarrow, a name that begins with a dot is a path.
    is_reserved = folded(encoded) in OWN_COLUMNS or encoded.startswith(".")
    return f"%{ord(encoded[0]):02X}{encoded[1:]}" if is_reserved else encoded


def captured_column(name: str) -> str:
    """Return the captured column with this name in the lake."""
    return unquote(name)


def folded(column: str) -> str:
    """Return a column name that is equal for those that Delta and Spark do not distinguish, by the case of letters."""
    return "".join(map(_folded, column))


def state_at(current: Tables, place: Folder | IcebergAddress) -> TableState | None:
    """Return the state of the current-state table at an address; None if the pipeline has not stored one."""
    found = read_states(current).items()
    return next((state for name, state in found if current.place_of(name) == place), None)


def read_states(current: Tables) -> dict[TableName, TableState]:
    """Return all states by table name."""
    folder = current.state_folder / _STATES
    found = (_state(folder, name) for name in _json_files(folder))
    return {state.name: state for state in found if state is not None}


def write_state(current: Tables, state: TableState) -> None:
    """Store a state durably."""
    _write(current.state_folder / _STATES, state.name, asdict(state))


def request_rebuild(current: Tables, name: TableName, *, reason: str | None = None) -> Request:
    """Store a request to rebuild a table durably; with a reason, the pipeline takes the snapshot itself."""
    request = Request(uuid.uuid4().hex, reason)
    _write(current.state_folder / _REQUESTS, name, {"name": asdict(name), **asdict(request)})
    return request


def rebuild_requests(current: Tables) -> dict[TableName, Request]:
    """Return the last requested rebuild of each table by name."""
    folder = current.state_folder / _REQUESTS
    found = [json.loads(read_bytes(folder, name)) for name in _json_files(folder)]
    return {TableName(**one["name"]): Request(one["token"], one.get("reason")) for one in found}


def read_gaps(current: Tables) -> list[Gap]:
    """Return the gaps in the events of a lake, in the order in which they were found."""
    try:
        return [Gap(**gap) for gap in json.loads(read_bytes(current.state_folder, _GAPS))]
    except FileNotFoundError:
        return []


def add_gap(current: Tables, gap: Gap) -> None:
    """Store a gap durably."""
    gaps = [*read_gaps(current), gap]
    write_whole(current.state_folder, _GAPS, json.dumps([asdict(one) for one in gaps]).encode())


def state_file(current: Tables, name: TableName) -> Folder:
    """Return the file with the state of a table."""
    return current.state_folder / _STATES / _json_name(name)


def rebuild_command(name: TableName, current: Tables) -> str:
    """Return the command that rebuilds a table, for a shell."""
    return shlex.join(["pgsluice", "lake", "rebuild", str(name), "--lake", str(current.lake)])


def read_applied(current: Tables) -> Applied | None:
    """Return the last applied micro-batch; None if no changes wait."""
    try:
        return Applied(**json.loads(read_bytes(current.state_folder, _APPLIED)))
    except FileNotFoundError:
        return None


def write_applied(current: Tables, applied: Applied | None) -> None:
    """Store the last applied micro-batch durably; None if no changes wait."""
    if applied is None:
        remove(current.state_folder, _APPLIED)
    else:
        write_whole(current.state_folder, _APPLIED, json.dumps(asdict(applied)).encode())


def _folded(letter: str) -> str:
    # As Java's equalsIgnoreCase, which maps each character to one.
    upper = letter.upper()
    lower = (upper if len(upper) == 1 else letter).lower()
    return lower if len(lower) == 1 else letter


def _json_files(folder: Folder) -> list[str]:
    return sorted(name for name, _, _ in files_in(folder) if name.endswith(".json"))


def _json_name(table: TableName) -> str:
    return f"{folder_name(table)}.json"


def _state(folder: Folder, name: str) -> TableState | None:
    try:
        stored = json.loads(read_bytes(folder, name))
        known = {one.name for one in fields(TableState)}
        facts = {key: value for key, value in stored.items() if key in known}
        return TableState(**{**facts, "name": TableName(**stored["name"])})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"the state of a table in {folder / name} cannot be read ({type(error).__name__}: {error}); restore it, or "
            "remove it and rebuild the table"
        ) from None


def _write(folder: Folder, table: TableName, content: Mapping[str, Any]) -> None:
    write_whole(folder, _json_name(table), json.dumps(content).encode())
