"""The last change of each row, in any order and however often: against a table that is changed as PostgreSQL would."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgsluice.errors import SluiceError
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.pipelines.current_state.apply import apply
from pgsluice.pipelines.current_state.buckets import combine
from pgsluice.pipelines.current_state.collapse import NEVER, Collapsed, collapse, later
from pgsluice.pipelines.current_state.envelope import Change, Row
from pgsluice.pipelines.current_state.table import CurrentTable, rows_of
from spark.changing import KINDS, NAME, Source, cut, live, played, steps


class InMemory:
    """A current state that is one Arrow table, kept as a bucket is."""

    schema = pa.schema(
        [*KINDS.items(), ("_seq", pa.int64()), ("_changed_at", pa.timestamp("us", "UTC")), ("_deleted", pa.bool_())]
    )  # fmt: skip

    def __init__(self) -> None:
        self.rows = self.schema.empty_table()
        self.line = NEVER

    def apply(self, collapsed: Collapsed) -> None:
        self.line = max(self.line, collapsed.emptied_at)
        self.rows = combine(
            self.rows, rows_of(NAME, self.schema, collapsed.rows.values()), ("id",), self.line
        )

    def contents(self) -> list[tuple]:
        return live(self.rows)


@settings(max_examples=200, deadline=None)
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
        current.apply(collapse(batch, KINDS))

    assert current.contents() == source.contents()


@settings(max_examples=50, deadline=None)
@given(history=steps, dice=st.randoms(use_true_random=False))
def test_batches_in_order_show_the_table_as_it_was_after_each(
    history: list[tuple], dice: random.Random
):
    source = played(Source(key=("id",)), history)
    current, seen = InMemory(), 0

    for batch in cut(source.log, dice):
        seen += len(batch)
        current.apply(collapse(batch, KINDS))

        replayed = InMemory()
        for change in source.log[:seen]:
            replayed.apply(collapse([change], KINDS))
        assert current.contents() == replayed.contents()


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    history=steps,
    has_key=st.booleans(),
    before=st.booleans(),
    dice=st.randoms(use_true_random=False),
)
def test_merges_into_a_delta_table_end_with_the_table(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple], has_key: bool, before: bool, dice: random.Random,
):  # fmt: skip
    key = ("id",) if has_key else ()
    source = played(Source(key=key, before=before or not has_key), history)
    table = CurrentTable.create(tmp_path_factory.mktemp("lake"), NAME, key, KINDS)
    batches = cut(source.log, dice)[:6]
    batches.append(source.log[sum(map(len, batches)) :])
    if has_key:
        dice.shuffle(batches)

    for version, batch in enumerate(batches):
        dice.shuffle(batch)
        for again in (False, True):
            if batch:
                table = table.again()
                collapsed = collapse(batch, KINDS)
                applied = apply(table, collapsed, app_id="a", version=version, deleted_kept_h=1e6)
                assert not (again and applied and table.has_applied("a", version))

    assert live(open_dataset(table.folder).to_table()) == source.contents()


def change(op: str, seq: int, before: Row | None, after: Row | None) -> Change:
    return Change(NAME, ("id",), seq, seq, op, before, after)


def test_the_order_is_by_event_and_not_by_transaction():
    early = replace(change("u", 9, {"id": 1}, {"id": 1, "name": "last"}), txid=5)
    late = replace(change("u", 8, {"id": 1}, {"id": 1, "name": "first"}), txid=6)

    collapsed = collapse([early, late], KINDS)

    assert [last.row["name"] for last in collapsed.rows.values()] == ["last"]


def test_a_key_written_otherwise_is_the_same_row():
    kinds = {"id": pa.decimal128(10, 2), "at": pa.timestamp("us", "UTC")}
    changes = [
        Change(NAME, ("id", "at"), 1, 1, "c", None, {"id": "1.0", "at": "2026-01-01T00:00:00+00:00"}),
        Change(NAME, ("id", "at"), 2, 2, "d", {"id": 1, "at": "2026-01-01 02:00:00+02"}, None),
    ]  # fmt: skip

    (last,) = collapse(changes, kinds).rows.values()

    assert last.deleted


def test_an_update_to_an_equal_key_keeps_the_row():
    kinds = {"id": pa.float64()}
    collapsed = collapse(
        [Change(NAME, ("id",), 1, 1, "u", {"id": "0.0"}, {"id": "-0.0", "name": "a"})], kinds
    )

    (last,) = collapsed.rows.values()

    assert not last.deleted
    assert (
        later(replace(last, deleted=True), last) == later(last, replace(last, deleted=True)) == last
    )


def test_what_is_deleted_leaves_its_key_and_nothing_else():
    collapsed = collapse([change("d", 1, {"id": 1, "name": "secret"}, None)], KINDS)

    assert [last.row for last in collapsed.rows.values()] == [{"id": 1}]


def test_another_key_is_refused():
    other = replace(change("c", 2, None, {"id": 2, "name": "b"}), key=("name",))

    with pytest.raises(SluiceError, match=r"the key of public.account was \(id\) and is \(name\)"):
        collapse([change("c", 1, None, {"id": 1, "name": "a"}), other], KINDS)


def test_a_row_without_its_key_is_refused():
    with pytest.raises(SluiceError, match="lacks the column 'id' of its key"):
        collapse([change("c", 1, None, {"name": "a"})], KINDS)
