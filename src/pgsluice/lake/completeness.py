"""Completeness of current-state tables: why a table differs from PostgreSQL, or may, and what ends that."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

from pgsluice.lake.current_tables import (
    Captured,
    Tables,
    TableState,
    described,
    rebuild_command,
    state_file,
)
from pgsluice.lake.names import TableName, quoted
from pgsluice.lake.shapes import Shape, Transition, transition

_NAMED_MAX = 10  # partitions in a text; it counts the others


def problems(
    current: Tables,
    log: str,
    source: str,
    captured: list[Captured],
    states: Mapping[TableName, TableState],
    missing: Collection[TableName] = (),
) -> dict[TableName, str]:
    """Return why tables of a lake are not complete, by name, each with the solution.

    Args:
        current: The current-state tables.
        log: Event log of the lake.
        source: Its identity now.
        captured: Captured tables of the log now.
        states: From `read_states`.
        missing: Tables that were created and do not exist.
    """
    found: dict[TableName, str] = {}
    by_name = {table.name: table for table in captured}
    names_by_oid = {table.oid: table.name for table in captured}
    for name, state in states.items():
        rebuild = rebuild_command(name, current)
        if state.parked is not None:
            found[name] = f"parked since {state.parked_at}: {state.parked}"
        elif state.rebuilds_itself:
            found[name] = (
                f"the pipeline rebuilds it: {state.rebuild_reason}; keep the pipeline running"
            )
        elif name in missing:
            found[name] = f"{described(current.place_of(name))} does not exist; run: {rebuild}"
        elif state.source and state.source != source:
            found[name] = (
                f"its rows come from another event log than {log!r} is now; use another lake"
            )
        elif name not in by_name:
            renamed = names_by_oid.get(state.oid) if state.oid is not None else None
            remove = f"remove {current.place_of(name)} and {state_file(current, name)}"
            found[name] = (
                f"renamed to {renamed} in PostgreSQL, and its changes go to that table; {remove}"
                if renamed
                else f"no longer captured into {log!r}, as the table or its triggers were dropped; capture it again "
                f"and run: {rebuild}, or {remove}"
            )
        elif state.oid not in (None, by_name[name].oid):
            found[name] = (
                f"dropped and created again in PostgreSQL, so it may have rows of the former table; run: {rebuild}"
            )
        elif state.complete_since is None and by_name[name].takes_snapshots:
            found[name] = _incomplete(name, log)
        elif state.other_name is not None:
            found[name] = (
                f"its name was {state.other_name} for a while, and its changes went to that table; run: {rebuild}"
            )
        elif reshaped := _reshaped(state, by_name[name].shape, current):
            found[name] = reshaped
    for table in captured:
        if table.name not in states and table.takes_snapshots:
            found[table.name] = _incomplete(table.name, log)
        elif table.problems or table.uncovered:
            uncovered = [_uncovered(table)] if table.uncovered else []
            found.setdefault(table.name, "; ".join([*uncovered, *table.problems]))
        elif table.is_detached:
            found[table.name] = (
                "detached from a captured table, whose lake table still has its rows; rebuild that table with pgsluice "
                f"lake rebuild, and run: select sluice.drop_capture({_literal(str(table.name))}, {_literal(log)})"
            )
    return found


def states_now(
    captured: Collection[Captured], states: Mapping[TableName, TableState]
) -> dict[TableName, str]:
    """Return a word for the state of each table of a lake.

    Returns:
        `parked`, `rebuilding`, or `Transition.kind` of what changed in PostgreSQL since the last change in the lake;
        `unknown` without a known shape.
    """
    shapes = {table.name: table.shape for table in captured}
    found = {}
    for name, state in states.items():
        now = shapes.get(name)
        if state.parked is not None:
            found[name] = "parked"
        elif state.rebuilding:
            found[name] = "rebuilding"
        elif state.shape is None or now is None:
            found[name] = "unknown"
        else:
            found[name] = _change_since(Shape.from_json(state.shape), now).kind
    return found


def kept_rows(state: TableState) -> str | None:
    """Return which rows a table may have that are not in PostgreSQL; None if there are none."""
    kept = sorted(
        one["name"] for one in state.former_partitions.values() if one["policy"] == "keep"
    )
    if not kept:
        return None
    more = f" and {len(kept) - _NAMED_MAX} more" if len(kept) > _NAMED_MAX else ""
    return f"may have rows of former partitions {', '.join(kept[:_NAMED_MAX])}{more}"


def _change_since(was: Shape, now: Shape) -> Transition:
    """Return what changed in PostgreSQL since the last change in the lake."""
    return transition(was, now.filled(was))


def _reshaped(state: TableState, now: Shape | None, current: Tables) -> str | None:
    """Return what `alter table` or `alter type` changed since the last change in the lake, with the solution."""
    if state.shape is None or now is None:
        return None
    change = _change_since(Shape.from_json(state.shape), now)
    if change.harm:
        return f"{change.harm}; run: {rebuild_command(state.name, current)}"
    kinds = {"renamed": change.renamed, "dropped": change.dropped, "added": change.added}
    done = [f"{', '.join(map(quoted, names))} {kind}" for kind, names in kinds.items() if names]
    if not done:
        return None
    return f"{'; '.join(done)} in PostgreSQL; the lake follows with the next change of the table"


def _uncovered(table: Captured) -> str:
    return (
        f"partitions without capture: {', '.join(table.uncovered)}; keep pgsluice maintain running, as a role that may "
        "create their triggers and read them, or call sluice.capture again as their owner; a table in "
        "inheritance with it cannot be captured: alter table … no inherit"
    )


def _incomplete(name: TableName, log: str) -> str:
    return (
        "no complete snapshot, so rows from before its capture may be missing; run: "
        + shlex.join(["pgsluice", "log", "snapshot", log, str(name)])
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
