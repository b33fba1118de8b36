"""Schema changes of captured tables: the lake follows, or says that it differs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from pgsluice.errors import ConfigurationError
from pgsluice.pipelines.current_state.snapshot import rebuild
from pgsluice.verify import verify_changes, verify_current
from spark.conftest import LOG
from spark.test_changes import Place
from spark.test_changes import place as place

CREATE = """
create type {name}_status as enum ('new', 'paid');
create type {name}_place as (x int, y int);
create table {name} (
    id int primary key, note text, home text, work text, n numeric, price numeric(10, 2), ts timestamp(3), c varchar(10),
    j json, state {name}_status, spot {name}_place, small int, ratio real, list int[],
    base int default 3, twice int generated always as (base * 2) stored
);
insert into {name} (id, note, home, work, n, price, ts, c, j, state, spot, small, ratio, list)
    select i, 'note', 'home', 'work', 1.5, 1.25, '2026-01-01 12:34:56.789', 'c', '{{"b": 1, "a": 2}}', 'new', '(1,2)', i,
        0.1, '{{1,2}}'
    from generate_series(1, 3) as i;
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A schema change.

    Attributes:
        statement: SQL, with `{name}` for the table.
        row: Begin of the row of the guide that tells it.
        harm: Begin of the reason for which the table is parked; None if the lake follows.
        since: Lowest version of PostgreSQL with the statement.
    """

    statement: str
    row: str
    harm: str | None = None
    since: int = 15


CHANGES = {
    "same": Change("comment on table {name} is 'x'", "a default or"),
    "unchanged_values": Change("alter table {name} alter note set not null, alter note set default 'd'", "a default or"),
    "stored_again": Change("vacuum full {name}", "a default or"),
    "added": Change("alter table {name} add extra text", "a column is added without"),
    "added_then_default": Change("alter table {name} add extra int; alter table {name} alter extra set default 5", "a column is added without"),
    "added_with_default": Change("alter table {name} add extra int default 5", "a column is added with a default", "column extra was added with a default"),
    "added_identity": Change(
        "alter table {name} add extra int generated always as identity", "a column is added with a default", "column extra was added with a default"
    ),
    "added_volatile": Change(
        "alter table {name} add extra float8 default random(); alter table {name} alter extra drop default", "a column is added with a default",
        "column extra was added with a default",
    ),
    "dropped": Change("alter table {name} drop note", "a column is dropped |"),
    "readded": Change("alter table {name} drop note, add note text", "a column is dropped and another"),
    "readded_type": Change("alter table {name} drop note, add note int", "a column is dropped and another"),
    "renamed": Change("alter table {name} rename note to remark", "a column is renamed, or two"),
    "swapped": Change(
        "alter table {name} rename home to tmp; alter table {name} rename work to home;"
        " alter table {name} rename tmp to work"
    , "a column is renamed, or two"),
    "renamed_key": Change(
        "alter table {name} rename id to number", "the columns of the primary key", "public.renamed_key finds its rows by column id, which was renamed"
    ),
    "renamed_to_dropped": Change("alter table {name} drop home; alter table {name} rename work to home", "a column is renamed, or two"),
    "widened_integer": Change("alter table {name} alter small type bigint, alter id type bigint", "a column gets a wider"),
    "widened_numeric": Change("alter table {name} alter price type numeric(12, 3), alter ratio type float8", "a column gets a wider"),
    "widened_text": Change("alter table {name} alter c type varchar(20), alter ts type timestamp(6)", "a column gets a wider"),
    "untyped_numeric": Change("alter table {name} alter price type numeric, alter small type numeric", "a column gets a wider"),
    "label_added": Change("alter type {name}_status add value 'late' before 'paid'", "a label is added"),
    "narrowed_numeric": Change("alter table {name} alter n type int", "a column gets another type", "column n was numeric and is integer"),
    "narrowed_time": Change("alter table {name} alter ts type timestamp(0)", "a column gets another type", "column ts was timestamp(3)"),
    "padded": Change("alter table {name} alter c type char(10)", "a column gets another type", "column c was character varying(10)"),
    "normalised": Change("alter table {name} alter j type jsonb", "a column gets another type", "column j was json and is jsonb"),
    "same_type": Change("alter table {name} alter note type text using upper(note)", "a column is altered with", "column note was altered"),
    "there_and_back": Change(
        "alter table {name} alter ts type timestamp(0); alter table {name} alter ts type timestamp(3)", "a column is altered with",
        "column ts was altered",
    ),
    "label_renamed": Change(
        "alter type {name}_status rename value 'new' to 'fresh'", "a label of an enum", "the type of column state was changed"
    ),
    "attribute": Change("alter type {name}_place add attribute z int", "a label of an enum", "the type of column spot was changed"),
    "expression": Change(
        "alter table {name} alter twice set expression as (base * 3)", "the expression of",
        "the expression of the generated column twice was changed",
        since=17,
    ),
    "expression_dropped": Change("alter table {name} alter twice drop expression", "a generated column becomes"),
    "another_key": Change("alter table {name} drop constraint {name}_pkey, add primary key (small)", "the columns of the primary key", "the key of"),
    "recreated": Change(
        "create table {name}_2 (like {name} including all); insert into {name}_2 (id, note) values (1, 'x');"
        " drop table {name}; alter table {name}_2 rename to {name}; select sluice.capture('{name}', 'log')", "the table is dropped",
        "dropped and created again",
    ),
}  # fmt: skip
HARMFUL = [name for name, change in CHANGES.items() if change.harm]


def test_the_guide_tells_each_schema_change():
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "change-capture.md").read_text()
    rows = [line.removeprefix("| ") for line in guide.splitlines() if line.startswith("| ")]

    wrong = []
    for name, change in CHANGES.items():
        found = [row for row in rows if row.startswith(change.row)]
        is_told = len(found) == 1 and f"| {'parked' if change.harm else 'follows'}" in found[0]
        wrong += [] if is_told else [name]
    told = {row for row in rows if "| follows" in row or "| parked" in row}
    of_changes = {row for row in told if any(row.startswith(c.row) for c in CHANGES.values())}
    assert wrong == []
    assert {row[:40] for row in told - of_changes} == {
        "a column of a table without a primary key"[:40]
    }


@pytest.fixture
def captured(place: Place, log: psycopg.Connection) -> psycopg.Connection:
    for name in CHANGES:
        log.execute(CREATE.format(name=name))
        log.execute("select sluice.capture(%s, %s)", (name, LOG))
    place.run(snapshots=list(CHANGES))
    assert complete(place) == {f"public.{name}" for name in CHANGES}
    return log


def complete(place: Place) -> set[str]:
    return set(verify_changes(LOG, place.lake, dsn=place.dsn).complete)


def equal(place: Place, table: str) -> bool:
    try:
        return place.equal(table)
    except ConfigurationError:  # the lake lacks a column
        return False


def differs_in_types_only(place: Place, table: str) -> bool:
    counts = verify_current(table, place.at(table), dsn=place.dsn).counts
    return not any(count for kind, count in counts.items() if kind != "type")


def change_all(log: psycopg.Connection) -> None:
    for name, change in CHANGES.items():
        if log.info.server_version // 10_000 >= change.since:
            for statement in change.statement.split(";"):
                log.execute(statement.format(name=name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows_after",
    [
        pytest.param(True, id="with later changes"),
        pytest.param(False, id="without", marks=pytest.mark.long),
    ],
)
def test_the_lake_follows_each_schema_change_or_tells_that_it_differs(
    place: Place,
    captured: psycopg.Connection,
    rows_after: bool,
):
    change_all(captured)
    if rows_after:
        for name in CHANGES:
            key = "number" if name == "renamed_key" else "id"
            captured.execute(
                f"insert into {name} ({key}, small, note) values (10, 10, '5')"
                if name not in ("dropped", "renamed")
                else f"insert into {name} ({key}) values (10)"
            )
            captured.execute(f"update {name} set small = 20 where {key} = 1")
            captured.execute(f"delete from {name} where {key} = 2")

    parked = place.run().progress().parked

    found = verify_changes(LOG, place.lake, dsn=place.dsn)
    problems = found.problems
    wrong = {}
    for name, change in CHANGES.items():
        table = f"public.{name}"
        is_equal = equal(place, table)
        problem = problems.get(table, "")
        if not rows_after:
            is_wider = found.states[table] == "widened" and differs_in_types_only(place, table)
            is_right = is_equal or problem or is_wider
        elif change.harm is None:
            is_right = is_equal and not problem
        else:
            is_right = change.harm in problem and table in parked
        if not is_right:
            wrong[name] = problem or "not told"
    assert wrong == {}
    if rows_after:
        for name in HARMFUL:
            rebuild(f"public.{name}", place.lake, dsn=place.dsn)
        assert place.run().progress().parked == ()
        assert all(place.equal(f"public.{name}") for name in CHANGES)
        assert complete(place) == {f"public.{name}" for name in CHANGES}
