"""Micro-batches on the way from the table of events to the current-state tables, in this process."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from pgsluice.errors import ChangeError, SluiceError
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.lake.files import LakeFile
from pgsluice.lake.jobs import show
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state import upkeep
from pgsluice.pipelines.current_state.collapse import Portion
from pgsluice.pipelines.current_state.envelope import Change
from pgsluice.pipelines.current_state.event_files import Written
from pgsluice.pipelines.current_state.pending import Pending
from pgsluice.pipelines.current_state.pieces import (
    Collapsing,
    ReadingPlan,
    collapse_files,
    collapsed,
    in_turn,
)
from pgsluice.pipelines.current_state.reading import SNAPSHOT_EVENT, Sources
from pgsluice.pipelines.current_state.table import CurrentTable
from spark.changing import KINDS, NAME, apply, live, write_events

PLAN = ReadingPlan(KINDS)
OTHER, BAD = TableName("public", "other"), TableName("public", "bad")
FILE = LakeFile("part-00000.zstd.parquet", 10, "{}", 1, 0.0)


def insert(
    seq: int, number: int, *, key: tuple[str, ...] = ("id",), table: TableName = NAME
) -> Change:
    return Change(table, key, seq, seq, "c", None, {"id": number, "name": "n"})


def test_a_table_takes_only_micro_batches_that_it_does_not_have(tmp_path: Path):
    files = {}
    for batch_id in range(3):
        path = tmp_path / f"{batch_id}.parquet"
        write_events(path, [insert(batch_id, batch_id), insert(batch_id, 7, table=OTHER)])
        files[batch_id] = [path]
    plans = dict.fromkeys([NAME, OTHER], PLAN)

    found = collapse_files(files, Collapsing(plans, {NAME: 1}, tmp_path), in_turn)

    assert collapsed(found[NAME]).rows["id"].to_pylist() == [2]
    assert collapsed(found[OTHER]).rows["_seq"].to_pylist() == [2]


def test_events_of_other_tables_are_not_decoded(tmp_path: Path):
    path = tmp_path / "events.parquet"
    bad = (2, 2, "I", "(id) values ('4')", "public.bad", None)  # decoding it fails
    write_events(path, [insert(1, 1), bad], row_groups=1)
    how = Collapsing({NAME: PLAN}, {}, tmp_path)

    assert list(collapse_files({0: [path]}, how, in_turn)) == [NAME]


def test_an_unreadable_change_concerns_its_table_only(tmp_path: Path):
    path = tmp_path / "events.parquet"
    changes = [insert(1, 1), insert(2, 2, key=("name",)), insert(3, 3, table=OTHER)]
    statement = (4, 4, "I", "(id) values ('4')", "public.bad", None)  # of pgq.sqltriga
    write_events(path, [*changes, statement], row_groups=1)
    how = Collapsing(
        dict.fromkeys([NAME, OTHER, BAD], PLAN), {}, tmp_path, joined={"public.bad": BAD}
    )

    found = collapse_files({0: [path]}, how, in_turn)

    with pytest.raises(SluiceError, match=r"the key of public.account was"):
        collapsed(found[NAME])
    with pytest.raises(ChangeError, match="event 4 is a statement of pgq.sqltriga for public.bad"):
        collapsed(found[BAD])
    assert collapsed(found[OTHER]).rows["id"].to_pylist() == [3]


def test_tasks_hand_over_no_rows(tmp_path: Path):
    path = tmp_path / "events.parquet"
    write_events(path, [insert(number, number) for number in range(5000)], row_groups=1)

    (piece,) = Collapsing({NAME: PLAN}, {}, tmp_path).task((0, path, 0))

    assert isinstance(piece.effect, Portion)
    assert piece.row_count == 5000
    assert len(pickle.dumps(piece)) < 2000


def test_many_inserts_with_higher_keys_leave_the_files_as_they_are(tmp_path: Path):
    table = CurrentTable.create(tables_in(tmp_path), NAME, ("id",), KINDS)
    apply(table, [insert(n, n) for n in range(10)], version=0, are_many=True, part_count=2)
    before = set(table.again().files)

    apply(table.again(), [insert(20, 20)], version=1, are_many=True)
    assert before < set(table.again().files)
    apply(table.again(), [insert(30, 5)], version=2, are_many=True)

    assert not before & set(table.again().files)
    rows = live(open_dataset(table.folder).to_table())
    assert sorted(row[0] for row in rows) == [*range(10), 20]


def test_pending_micro_batches_survive_a_restart(tmp_path: Path):
    pending = Pending(tmp_path / "unapplied")
    assert pending.all() == {}
    pending.add(9, Written([FILE], Sources({NAME: {"ab": 7}}, frozenset(["a.b.c"]))))
    mark = (7, 7, SNAPSHOT_EVENT, "{}", str(NAME), None)
    pending.add(10, Written([FILE], Sources(), (mark,)))

    again = Pending(tmp_path / "unapplied")

    assert list(again.all().items()) == [
        (9, Written([FILE], Sources({NAME: {"ab": 7}}, frozenset(["a.b.c"])))),
        (10, Written([FILE], Sources(), (mark,))),
    ]
    again.remove(9)
    assert list(pending.all()) == [10]


def test_maintenance_compacts_many_small_files_and_removes_old_ones(tmp_path: Path):
    table = CurrentTable.create(tables_in(tmp_path), NAME, ("id",), KINDS)
    for n in range(upkeep.SMALL_FILES_MIN):
        upkeep.maintain(tables_in(tmp_path), retention_h=1)
        apply(table.again(), [insert(n, n)], version=n, are_many=True)
    files = table.again().files
    assert len(files) == upkeep.SMALL_FILES_MIN
    unneeded = table.folder / "part-00000-of-a-failed-task.zstd.parquet"
    unneeded.touch()
    os.utime(unneeded, (0, 0))

    upkeep.maintain(tables_in(tmp_path), retention_h=1)

    assert show(table.folder).files == 1
    assert not unneeded.exists()
    assert all((table.folder / file).exists() for file in files)  # replaced just now
