"""Changes applied bucket by bucket, as Spark's executors do, in this process."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsluice.errors import ChangeError
from pgsluice.lake.current_tables import Tables
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state.collapse import text_of_identity
from pgsluice.pipelines.current_state.envelope import Change
from pgsluice.pipelines.current_state.pieces import part_of
from pgsluice.pipelines.current_state.table import CurrentTable
from spark.changing import KINDS, NAME, Source, apply, cut, live, played, steps, stored


def made(current: Tables, bucket_count: int = 4) -> CurrentTable:
    return CurrentTable.create(current, NAME, ("id",), KINDS, bucket_count=bucket_count)


def contents(table: CurrentTable) -> list[tuple]:
    return live(stored(table))


def inserts(*numbers: int, seq: int = 0) -> list[Change]:
    return [
        Change(NAME, ("id",), seq + at, 1, "c", None, {"id": number, "name": "n"})
        for at, number in enumerate(numbers)
    ]


@pytest.mark.slow
@settings(max_examples=25)
@given(history=steps, before=st.booleans(), dice=st.randoms(use_true_random=False))
def test_batches_in_any_order_and_any_number_of_times_end_with_the_table(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple], before: bool, dice: random.Random
):  # fmt: skip
    source = played(Source(key=("id",), before=before), history)
    table = made(tables_in(tmp_path_factory.mktemp("lake")), bucket_count=3)
    batches = cut(source.log, dice)[:5]
    batches.append(source.log[sum(map(len, batches)) :])
    dice.shuffle(batches)

    for version, batch in enumerate(batches):
        dice.shuffle(batch)
        for _ in range(2 if batch else 0):
            apply(table.again(), batch, version=version)

    assert contents(table) == source.contents()


def test_only_buckets_with_changes_are_read_and_written(current: Tables):
    table = made(current)
    apply(table, inserts(*range(100)), version=0)
    before = set(table.again().files)
    for file in before:
        if f"_bucket={part_of(text_of_identity((7,)), 4)}" not in file:
            (table.folder / file).unlink()  # reading it fails

    apply(table.again(), inserts(7, seq=1000), version=1)

    assert len(before & set(table.again().files)) == len(before) - 1 == 3


def test_a_batch_is_applied_once(current: Tables):
    table = made(current)

    assert apply(table, inserts(1), version=0)
    assert not apply(table.again(), inserts(2, seq=9), version=0)
    assert contents(table) == [(1, "n", None)]


def test_stale_writer_changes_nothing(current: Tables):
    table = made(current)
    apply(table, inserts(1), version=0)
    late = table.again()
    apply(table.again(), inserts(2, seq=9), version=1)

    assert not apply(late, inserts(2, seq=9), version=1)
    assert contents(table) == [(1, "n", None), (2, "n", None)]


def test_files_removed_by_a_concurrent_commit_are_not_removed_again(current: Tables):
    table = made(current, bucket_count=2)
    apply(table, inserts(1), version=0)
    stale = table.again()
    apply(table.again(), inserts(2, seq=10), version=0, app_id="other")

    assert apply(stale, inserts(3, seq=20), version=1)
    assert contents(table) == [(1, "n", None), (2, "n", None), (3, "n", None)]


def test_a_truncate_reads_no_file_that_is_all_below_it(current: Tables):
    table = made(current)
    apply(table, inserts(*range(100)), version=0)
    for file in table.again().files:
        (table.folder / file).unlink()

    apply(table.again(), [Change(NAME, (), 500, 1, "t"), *inserts(7, seq=600)], version=1)

    assert contents(table) == [(7, "n", None)]
    # Late changes precede the truncate and are ignored.
    apply(table.again(), inserts(8, seq=400), version=2)
    assert contents(table) == [(7, "n", None)]


def test_traces_of_deleted_rows_go_when_they_are_old(current: Tables):
    table = made(current, bucket_count=2)
    apply(table, inserts(1, 2), version=0)
    gone = Change(NAME, ("id",), 50, 1, "d", {"id": 1}, None)

    apply(table.again(), [gone], version=1)
    kept = stored(table)["id"].to_pylist()
    apply(table.again(), inserts(*range(3, 20), seq=60), version=2, kept_h=1)

    assert sorted(kept) == [1, 2]
    assert sorted(stored(table)["id"].to_pylist()) == list(range(2, 20))


def test_a_table_without_a_key_has_no_buckets(current: Tables):
    with pytest.raises(ChangeError, match="has no key for buckets"):
        CurrentTable.create(current, NAME, (), KINDS, bucket_count=2)


def test_columns_that_the_lake_cannot_distinguish_are_named(current: Tables):
    with pytest.raises(
        ChangeError, match='the columns "A" and a, which the lake cannot distinguish'
    ):
        CurrentTable.create(current, NAME, (), dict.fromkeys(["A", "a"], pa.string()))
