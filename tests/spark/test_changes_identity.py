"""Names, partitions and shapes of captured tables that change between two updates of the lake."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from pgsluice.lake.current_tables import Tables
from pgsluice.pipelines.current_state import shaping
from pgsluice.pipelines.current_state.snapshot import snapshot
from pgsluice.verify import verify_changes, verify_current
from pgsluice.verify.changes import Completeness
from spark.conftest import LOG
from spark.current_states import States
from support.servers import Database

ITEM, PARTS = "public.item", "public.parts"


@pytest.fixture
def states(
    database_18: Database, log: psycopg.Connection, tmp_path: Path, current: Tables
) -> States:
    """A captured table and one with partitions, complete in the lake."""
    log.execute(
        """create table item (id int primary key, note text);
        create table parts (id int primary key, note text) partition by range (id);
        create table low partition of parts for values from (0) to (10);
        create table high partition of parts for values from (10) to (20)"""
    )
    states = States(database_18, log, current, tmp_path)
    for name in ("item", "parts"):
        log.execute("select sluice.capture(%s::regclass, %s)", (name, LOG))
        log.execute(f"insert into {name} values (1, 'a'), (2, 'b'), (12, 'c')")  # type: ignore[arg-type]
        snapshot(name, LOG, dsn=database_18.url)
    states.update()
    return states


def verified(states: States, database: Database) -> Completeness:
    return verify_changes(LOG, str(states.current.lake), dsn=database.url)


def test_known_shapes_are_not_read_again(
    states: States, log: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
):
    asked = []
    run = shaping.run

    def counted(*arguments: object) -> object:
        asked.append(arguments)
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(shaping, "run", counted)
    log.execute("update item set note = 'x' where id = 1")
    states.update()
    assert asked == []
    log.execute("alter table item add extra int; update item set extra = 1 where id = 1")
    states.update()
    assert len(asked) == 1
    assert {row["id"]: row["extra"] for row in states.live(ITEM)} == {1: 1, 2: None, 12: None}


@pytest.mark.parametrize(
    "change", ["insert into other values (3, 'x')", "delete from other", "truncate other"]
)
def test_table_that_had_another_name_for_a_while_is_not_complete(
    states: States, log: psycopg.Connection, database_18: Database, change: str
):
    assert set(verified(states, database_18).complete) == {ITEM, PARTS}
    log.execute("alter table item rename to other")
    log.execute(change)  # type: ignore[call-overload]
    log.execute("alter table other rename to item")
    states.update()

    found = verified(states, database_18)

    assert "public.other" in found.problems[ITEM]
    assert "pgsluice lake rebuild public.item" in found.problems[ITEM]
    assert set(found.complete) == {PARTS}


@pytest.mark.parametrize("how", ["alter table parts detach partition high", "drop table high"])
def test_table_that_lost_a_partition_is_not_complete(
    states: States, log: psycopg.Connection, database_18: Database, how: str
):
    log.execute(how)  # type: ignore[call-overload]
    assert PARTS in verified(states, database_18).problems
    log.execute("insert into parts values (3, 'd')")
    states.update()
    assert PARTS in verified(states, database_18).problems


@pytest.mark.parametrize("trigger", ["jsontriga", "logutriga"])
def test_arrays_of_pgqs_triggers_are_verified(
    database_18: Database,
    log: psycopg.Connection,
    tmp_path: Path,
    current: Tables,
    trigger: str,
):
    states = States(database_18, log, current, tmp_path)
    log.execute(
        "create table item (id int primary key, texts text[], numbers int[], document jsonb);"
        "create trigger t after insert or update or delete on item for each row "
        f"execute function pgq.{trigger}('{LOG}')"
    )  # type: ignore[call-overload]
    log.execute(
        """insert into item values (1, '{a,"b,c",NULL}', '{1,2}', '{"b": [1, 2]}'), (2, '{}', '{{3},{4}}', 'null')"""
    )
    states.update()
    assert verify_current(ITEM, states.at(ITEM), dsn=database_18.url).equal

    log.execute("alter table item disable trigger t; update item set texts = '{a}' where id = 1")
    assert not verify_current(ITEM, states.at(ITEM), dsn=database_18.url).equal
