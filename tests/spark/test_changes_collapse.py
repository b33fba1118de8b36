"""Collapsing reordered and repeated changes to the last one per row, against a model."""

from __future__ import annotations

import random
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgsluice.errors import SluiceError
from pgsluice.lake.current_tables import Tables
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state.buckets import combine
from pgsluice.pipelines.current_state.collapse import (
    NEVER,
    Collapsed,
    collapse,
    portion_of,
    together,
)
from pgsluice.pipelines.current_state.envelope import Change, Row
from pgsluice.pipelines.current_state.table import CurrentTable, rows_of
from spark.changing import (
    KINDS,
    NAME,
    Source,
    apply,
    collapsed,
    cut,
    live,
    played,
    steps,
    stored,
)


class InMemory:
    """A current-state table in memory, updated as a bucket is."""

    schema = pa.schema(
        [*KINDS.items(), ("_seq", pa.int64()), ("_changed_at", pa.timestamp("us", "UTC")), ("_deleted", pa.bool_())]
    )  # fmt: skip

    def __init__(self) -> None:
        self.rows = self.schema.empty_table()
        self.line = NEVER

    def apply(self, collapsed: Collapsed) -> None:
        self.line = max(self.line, collapsed.emptied_at)
        self.rows = combine(
            self.rows, rows_of(NAME, self.schema, collapsed.rows), ("id",), self.line
        )

    def contents(self) -> list[tuple]:
        return live(self.rows)


@pytest.mark.slow
@settings(max_examples=200)
@given(history=steps, before=st.booleans(), dice=st.randoms(use_true_random=False))
def test_batches_in_any_order_and_any_number_of_times_end_with_the_table(
    history: list[tuple], before: bool, dice: random.Random
):
    source = played(Source(key=("id",), before=before), history)
    batches = cut(source.log, dice)
    batches += dice.choices(batches, k=3) if batches else []
    dice.shuffle(batches)
    current = InMemory()

    for batch in batches:
        dice.shuffle(batch)
        current.apply(collapsed(batch, dice))

    assert current.contents() == source.contents()


@pytest.mark.slow
@settings(max_examples=50)
@given(history=steps, dice=st.randoms(use_true_random=False))
def test_batches_in_order_show_the_table_as_it_was_after_each(
    history: list[tuple], dice: random.Random
):
    source = played(Source(key=("id",)), history)
    current, seen = InMemory(), 0

    for batch in cut(source.log, dice):
        seen += len(batch)
        current.apply(collapsed(batch, dice))

        replayed = InMemory()
        for change in source.log[:seen]:
            replayed.apply(collapsed([change], dice))
        assert current.contents() == replayed.contents()


@pytest.mark.slow
@pytest.mark.parametrize("current", ["delta", "iceberg"], indirect=True)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=steps,
    has_key=st.booleans(),
    before=st.booleans(),
    dice=st.randoms(use_true_random=False),
)
def test_merges_into_a_lake_table_end_with_the_table(
    current: Tables,
    history: list[tuple], has_key: bool, before: bool, dice: random.Random,
):  # fmt: skip
    key = ("id",) if has_key else ()
    source = played(Source(key=key, before=before or not has_key), history)
    lake = tables_in(f"{current.lake}{uuid4().hex}")
    table = CurrentTable.create(lake, NAME, key, KINDS)
    batches = cut(source.log, dice)[:6]
    batches.append(source.log[sum(map(len, batches)) :])
    if has_key:
        dice.shuffle(batches)

    for version, batch in enumerate(batches):
        dice.shuffle(batch)
        are_many = dice.random() < 0.5
        for again in (False, True):
            if batch:
                table = table.again()
                applied = apply(table, batch, version=version, part_count=3, are_many=are_many)
                assert not (again and applied and table.has_applied("a", version))

    assert live(stored(table)) == source.contents()


def change(op: str, seq: int, before: Row | None, after: Row | None) -> Change:
    return Change(NAME, ("id",), seq, seq, op, before, after)


def test_the_order_is_by_event_and_not_by_transaction():
    early = replace(change("u", 9, {"id": 1}, {"id": 1, "name": "last"}), txid=5)
    late = replace(change("u", 8, {"id": 1}, {"id": 1, "name": "first"}), txid=6)

    for portions in ([[early, late]], [[early], [late]], [[late], [early]]):
        found = collapse([portion_of(portion, KINDS) for portion in portions])

        assert found.rows["name"].to_pylist() == ["last"]


def test_a_key_written_otherwise_is_the_same_row():
    kinds = {"id": pa.decimal128(10, 2), "at": pa.timestamp("us", "UTC")}
    changes = [
        Change(NAME, ("id", "at"), 1, 1, "c", None, {"id": "1.0", "at": "2026-01-01T00:00:00+00:00"}),
        Change(NAME, ("id", "at"), 2, 2, "d", {"id": 1, "at": "2026-01-01 02:00:00+02"}, None),
    ]  # fmt: skip

    found = collapse([portion_of([change], kinds) for change in changes])

    assert found.rows["_deleted"].to_pylist() == [True]


def test_an_update_to_an_equal_key_keeps_the_row():
    change = Change(NAME, ("id",), 1, 1, "u", {"id": "0.0"}, {"id": "-0.0", "name": "a"})

    found = collapse([portion_of([change], {"id": pa.float64()})])

    assert found.rows["_deleted"].to_pylist() == [False]


@pytest.mark.parametrize("key", ["1.0", 1])
def test_an_insert_and_a_delete_of_one_event_keep_the_row(key: str | int):
    changes = [
        Change(NAME, ("id",), 1, 1, "d", {"id": key}, None),
        Change(NAME, ("id",), 1, 1, "c", None, {"id": key, "name": "a"}),
    ]
    kinds = {"id": pa.decimal128(10, 2)}

    for several in (changes, changes[::-1]):
        for portions in ([several], [[change] for change in several]):
            found = collapse([portion_of(portion, kinds) for portion in portions])
            assert found.rows["name"].to_pylist() == ["a"]


def test_deleted_row_keeps_only_its_key():
    found = collapsed([change("d", 1, {"id": 1, "name": "secret"}, None)])

    assert found.columns == ("id",)


def test_values_of_several_types_become_text():
    rows: list[Row] = [{"id": 1, "name": None}, {"id": 2, "name": True}, {"id": 3, "name": 2**63}]
    portions = [portion_of([change("c", n, None, row)], KINDS) for n, row in enumerate(rows)]

    joined = together([portion.rows for portion in portions])

    assert joined["id"].to_pylist() == [1, 2, 3]
    assert joined["name"].to_pylist() == [None, "true", "9223372036854775808"]


def test_another_key_is_refused():
    changes = [
        change("c", 1, None, {"id": 1, "name": "a"}),
        replace(change("c", 2, None, {"id": 2, "name": "b"}), key=("name",)),
    ]
    message = r"the key of public.account was \(id\) and is \(name\)"

    with pytest.raises(SluiceError, match=message):
        portion_of(changes, KINDS)
    with pytest.raises(SluiceError, match=message):
        collapse([portion_of([change], KINDS) for change in changes])


def test_a_row_without_its_key_is_refused():
    with pytest.raises(SluiceError, match="lacks the key column 'id'"):
        portion_of([change("c", 1, None, {"name": "a"})], KINDS)
