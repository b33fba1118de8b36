"""Check that the current-state tables of a lake are complete."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgsluice.client.calls import spark as calls
from pgsluice.errors import ConfigurationError
from pgsluice.lake.completeness import kept_rows, problems, states_now
from pgsluice.lake.current_tables import Captured, read_gaps, read_states
from pgsluice.lake.names import TableName
from pgsluice.lake.storage import folders_in
from pgsluice.verify.comparing import fetch, reading
from pgsluice.verify.lake import require_lake_packages


@dataclass(frozen=True, slots=True)
class Completeness:
    """The current-state tables of a lake.

    Attributes:
        complete: Time in ISO 8601 since which a table has all rows, by name; None if its capture records no snapshots.
        problems: Why other tables are not complete, by name, with the solution.
        states: State of each table by name, see `pgsluice.lake.completeness.states_now`.
        kept: Dropped and detached partitions whose rows a table may have, by name.
        gaps: Events that the table of events lacks, as the log removed them before they were in the lake.
    """

    complete: Mapping[str, str | None] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    gaps: Sequence[str] = ()
    kept: Mapping[str, str] = field(default_factory=dict)


def verify_changes(
    log: str,
    lake: str | Path,
    *,
    tables: Collection[str] | None = None,
    dsn: str | None = None,
) -> Completeness:
    """Check that no table of a lake is parked, incomplete, renamed, or without its folder or capture.

    Reads no rows; `verify_current` compares the rows of one table.

    Args:
        log: Event log of the lake.
        lake: Lake of the pipeline `changes`: a folder, or `iceberg:catalogue/namespace`.
        tables: Tables with a current state, as `schema.table`; None: all captured tables.
        dsn: Connection string; None to resolve it as `pgsluice.connection` does.

    Raises:
        ConfigurationError: The pipeline has not written to this lake.
        LogNotFoundError: The log does not exist.
        MissingExtraError: A package required to read the lake is not installed.
    """
    require_lake_packages()
    from pgsluice.lake.tables import missing, tables_in

    chosen = None if tables is None else set(map(TableName.parse, tables))
    current = tables_in(lake)
    if not folders_in(current.state_folder):
        raise ConfigurationError(f"{lake} is not a lake of the pipeline changes; use its --lake")
    states = read_states(current)
    with reading(dsn) as database:
        source = fetch(database, calls.log_incarnation(log))
        captured = Captured.with_shapes(
            fetch(database, calls.captured_tables(log)), fetch(database, calls.list_shapes(log))
        )
    every = problems(current, log, source, captured, states, missing(current, states))
    found = {str(name): every[name] for name in sorted(every) if chosen is None or name in chosen}
    complete = {
        str(name): state.complete_since for name, state in states.items() if name not in every
    }
    state_names = {
        str(name): word
        for name, word in states_now(captured, states).items()
        if chosen is None or name in chosen
    }
    kept = {
        str(name): text
        for name, state in states.items()
        if (chosen is None or name in chosen) and (text := kept_rows(state))
    }
    return Completeness(complete, found, state_names, tuple(map(str, read_gaps(current))), kept)
