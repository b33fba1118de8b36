"""`pgsluice pipeline status`, and the tables of a pipeline for `pgsluice explain consumer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from pgsluice.cli.clients import open_connection
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.cli.output import fields_of, show_lists
from pgsluice.cli.printing import echo
from pgsluice.client import Archive, EventLog, ExplainedFact, Operations
from pgsluice.errors import SluiceError
from pgsluice.lake.file_errors import plain_errors


@click.command()
@json_option
@dsn_option
def status(as_json: bool, dsn: str | None) -> None:
    """List the pipelines from event logs into the lake with their progress and lag, exports of archives, and Spark
    streams that read queues.

    The lag is counted up to the newest tick. Pipelines whose consumer is unregistered are not
    listed. held_by is the session that runs the pipeline or ran it last, row_count the rows written since its start.

    kept counts the verified messages of an export that another export or the retention keeps in the archive,
    claimed_messages the unacknowledged messages of a stream.

    For pipelines of kind changes whose lake this machine can read, also the state of each current-state table: same;
    what a schema change did that the table does not have yet (added, dropped, renamed, widened, redefined); parked or
    rebuilding; with the reason and the solution; and the dropped partitions whose rows it keeps.
    """
    with open_connection(dsn) as connection:
        pipelines = EventLog(connection).list_pipelines()
        tables = {
            one.lake: tables_of(one.log_name, one.lake, dsn)
            for one in pipelines
            if one.kind == "changes"
        }
        found = [fields_of(one) | {"tables": tables.get(one.lake)} for one in pipelines]
        lists = {
            "pipelines": lambda: found if as_json else pipelines,
            "exports": Archive(connection).list_exports,
            "streams": Operations(connection).list_queue_streams,
        }
        show_lists(lists, as_json)
    for lake, states in () if as_json else tables.items():
        for line in lines_of(lake, states):
            echo(line)


def tables_of(log: str, lake: str, dsn: str | None) -> Mapping[str, Any]:
    """Return the state and the problem of each table of a lake, or the error if it cannot be read here."""
    try:
        from pgsluice.verify.changes import verify_changes

        with plain_errors(f"the lake {lake}"):
            found = verify_changes(log, lake, dsn=dsn)
    except SluiceError as error:
        return {"error": str(error)}
    names = sorted(found.states.keys() | found.problems.keys())
    return {
        name: {
            "state": found.states.get(name),
            "problem": found.problems.get(name),
            "kept": found.kept.get(name),
        }
        for name in names
    }


def lines_of(lake: str, states: Mapping[str, Any]) -> list[str]:
    """Return a line for each table."""
    if "error" in states:
        return [f"tables of {lake} not shown: {states['error']}"]
    lines = []
    for name, facts in states.items():
        text = ": ".join(one for one in facts.values() if one)
        lines.append(f"{name}: {text}")
    return lines


def with_tables(facts: list[ExplainedFact], log: str, dsn: str | None) -> list[ExplainedFact]:
    """Return the facts about a consumer; if it is a pipeline of changes, with those about its tables after its own."""
    for place, fact in enumerate(facts, 1):
        if fact.cause == "pipeline" and fact.detail["kind"] == "changes":
            lake = str(fact.detail["lake"])
            tables = tables_of(log, lake, dsn)
            details: list[dict[str, Any]] = (
                [dict(tables)]
                if "error" in tables
                else [{"table": name, **states} for name, states in tables.items()]
            )
            lines = zip(lines_of(lake, tables), details, strict=True)
            found = [
                ExplainedFact("state", None, "table", line, (), detail) for line, detail in lines
            ]
            return [*facts[:place], *found, *facts[place:]]
    return facts
