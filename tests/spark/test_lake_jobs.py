"""Compaction and vacuum: all rows are kept, and no commit refers to a deleted file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, Field
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, CommitProperties, RemoveAction

from pgsluice.cli.lake import lake as command
from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake import reservation
from pgsluice.lake.delta import commits
from pgsluice.lake.delta import jobs as delta_jobs
from pgsluice.lake.delta.commits import rewriting
from pgsluice.lake.delta.files import files_of
from pgsluice.lake.delta.opening import Use, open_dataset
from pgsluice.lake.jobs import compact, show, vacuum
from spark.lake_reading import lake_column
from spark.test_lake import SCHEMA, add, batches, table

HOURS = 3600.0


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def fill(lake: Path, commits: int = 4) -> None:
    for version in range(commits):
        add(lake, version * 2, version * 2 + 1, version=version)


def age(*paths: Path, hours: float = 300) -> None:
    then = time.time() - hours * HOURS
    for path in paths:
        os.utime(path, (then, then))


def in_folder(lake: Path) -> set[str]:
    return {str(path.relative_to(lake)) for path in lake.rglob("*.parquet")}


def in_table(lake: Path) -> set[str]:
    return {file.path for file in files_of(DeltaTable(str(lake)))}


def test_compaction_keeps_the_rows_and_what_was_committed(lake: Path):
    fill(lake)

    done = compact(lake)

    assert (done.files_removed, done.files_added) == (4, 1)
    assert lake_column(lake, "id") == list(range(8))
    assert table(lake).last_version("pgsluice:test") == 3
    assert not add(lake, 6, 7, version=3)
    assert compact(lake).files_removed == 0


def test_a_commit_that_comes_while_a_table_is_compacted_stays(
    lake: Path, monkeypatch: pytest.MonkeyPatch
):
    fill(lake)
    opened = delta_jobs.open_delta

    def then_add(folder: Path, use: Use) -> DeltaTable:
        there = opened(folder, use)
        add(lake, 50, version=4)
        return there

    monkeypatch.setattr(delta_jobs, "open_delta", then_add)

    assert compact(lake).files_removed == 4

    assert lake_column(lake, "id") == [*range(8), 50]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call `act` between the compaction's last check and its commit."""
    claim = commits.claim

    def then(*arguments: Any) -> None:
        monkeypatch.setattr(commits, "claim", claim)
        claim(*arguments)
        act()

    monkeypatch.setattr(commits, "claim", then)


def rewrite_by_name(lake: Path) -> None:
    """Replace all files by one, as a bucketed apply of changes does."""
    there = DeltaTable(str(lake))
    now_ms = int(time.time() * 1000)
    there.create_write_transaction(
        [
            *(RemoveAction(file.path, True, now_ms, file.size_bytes) for file in files_of(there)),
            *(
                AddAction(file.path, file.size_bytes, {}, now_ms, True, file.stats)
                for file in table(lake).write(batches(list(range(8))), part=0)
            ),
        ],
        "append",
        there.schema(),
        commit_properties=CommitProperties(app_transactions=[rewriting(there)]),
    )


@pytest.mark.parametrize("act", [compact, rewrite_by_name, lambda lake: DeltaTable(lake).delete()])
def test_a_compaction_that_lost_its_files_to_another_commit_is_refused(
    lake: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], object]
):
    fill(lake)
    after: list[list[int]] = []
    meanwhile(monkeypatch, lambda: (act(lake), after.append(lake_column(lake, "id"))))

    with pytest.raises(SluiceError, match="a concurrent commit replaced its files"):
        compact(lake)

    assert lake_column(lake, "id") == after[0]


def test_a_commit_that_lost_its_files_to_a_compaction_is_refused(lake: Path):
    fill(lake)
    stale = DeltaTable(str(lake))
    gone = [RemoveAction(file.path, True, 0, file.size_bytes) for file in files_of(stale)]
    compact(lake)

    with pytest.raises(CommitFailedError, match="Concurrent transaction failed"):
        stale.create_write_transaction(
            gone,
            "append",
            stale.schema(),
            commit_properties=CommitProperties(app_transactions=[rewriting(stale)]),
        )

    assert lake_column(lake, "id") == list(range(8))


def test_compaction_keeps_rows_and_fills_added_columns_with_null(lake: Path):
    fill(lake, 2)
    DeltaTable(str(lake)).alter.add_columns(Field("n", PrimitiveType("integer")))

    compact(lake)

    there = open_dataset(lake).to_table(filter=pc.field("text") == "№ 1")
    assert there.column("id").to_pylist() == [1]
    (name,) = in_table(lake)
    schema = pq.read_schema(lake / name)
    assert (schema.field("text").type, schema.field("n").type) == (pa.string(), pa.int32())


def test_vacuum_removes_what_is_old_and_in_no_version_of_the_last_hours(lake: Path):
    fill(lake)
    compact(lake)
    replaced = in_folder(lake) - in_table(lake)
    orphan, young = (table(lake).write(batches([9]), part=0)[0].path for _ in range(2))
    age(lake / orphan, *(lake / name for name in replaced))

    dry = vacuum(lake, retention_hours=2, dry_run=True)
    removed = vacuum(lake, retention_hours=2)

    # The compaction replaced these files just now; readers of the old version may still use them.
    assert list(removed.files) == list(dry.files) == [orphan]
    assert removed.size_bytes == dry.size_bytes > 0
    assert in_folder(lake) == {*in_table(lake), *replaced, young}
    assert lake_column(lake, "id") == list(range(8))


def test_vacuum_removes_what_was_replaced_long_ago(lake: Path):
    fill(lake)
    compact(lake)
    age_removals(lake, hours=300)

    removed = vacuum(lake)

    assert len(removed.files) == 4
    assert in_folder(lake) == in_table(lake)
    assert lake_column(lake, "id") == list(range(8))


def age_removals(lake: Path, *, hours: float) -> None:
    """Make the last commit and all files older."""
    age(*lake.glob("*.parquet"), hours=hours)
    last = max((lake / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    for action in actions:
        if "remove" in action:
            action["remove"]["deletionTimestamp"] -= int(hours * HOURS * 1000)
    last.write_text("\n".join(map(json.dumps, actions)))


def test_a_commit_in_flight_keeps_its_files_however_old_they_are(
    lake: Path, monkeypatch: pytest.MonkeyPatch
):
    fill(lake)
    one = table(lake)
    written = one.write(batches([9]), part=0)
    age(lake / written[0].path)
    asked = reservation.old_files
    move = reservation._move

    def commit_first(source: Path, target: Path) -> None:
        """Commit after vacuum found the file to be old and before it moves the file."""
        if source.name == written[0].path and reservation.QUARANTINE in target.parts:
            monkeypatch.setattr(reservation, "_move", move)
            assert one.commit(written, app_id="app", version=0)
        move(source, target)

    monkeypatch.setattr(reservation, "_move", commit_first)

    assert vacuum(lake, retention_hours=1).files == []

    assert asked(lake, [written[0].path], age_s=HOURS) == {}
    assert lake_column(lake, "id") == [*range(8), 9]
    assert not (lake / reservation.QUARANTINE).exists()


def test_a_commit_that_comes_too_late_is_refused_and_names_nothing(lake: Path):
    fill(lake)
    one = table(lake)
    written = one.write(batches([9]), part=0)
    age(lake / written[0].path)
    assert vacuum(lake, retention_hours=1).files == [written[0].path]

    with pytest.raises(SluiceError, match="was removed before its commit.* run the write again"):
        one.commit(written, app_id="app", version=0)

    assert lake_column(lake, "id") == list(range(8))
    assert one.last_version("app") is None


def test_a_vacuum_that_was_killed_is_finished_by_the_next(lake: Path):
    fill(lake)
    named = next(iter(in_table(lake)))
    orphan = table(lake).write(batches([9]), part=0)[0].path
    aside = lake / reservation.QUARANTINE
    aside.mkdir()
    for name in (named, orphan):
        (lake / name).rename(aside / name)
        age(aside / name)

    assert vacuum(lake).files == [orphan]

    assert lake_column(lake, "id") == list(range(8))


def test_a_retention_that_is_no_retention_is_refused(lake: Path):
    fill(lake)

    with pytest.raises(ConfigurationError, match=r"invalid retention of 0\.5 hours; use 1 or more"):
        vacuum(lake, retention_hours=0.5)
    with pytest.raises(ConfigurationError, match="there is no lake table"):
        vacuum(lake / "none")


def test_show_tells_what_the_table_holds(lake: Path):
    fill(lake)

    state = show(lake, history=2)

    assert (state.format, state.version, state.rows, state.files) == ("delta", 4, 8, 4)
    assert state.size_bytes == sum((lake / name).stat().st_size for name in in_table(lake))
    assert state.small_files == 4
    assert state.columns == ["id long", "at timestamp", "text string"]
    assert [commit.version for commit in state.history] == [4, 3]
    assert len(SCHEMA) == len(state.columns)


def test_the_command_line_does_the_same(lake: Path):
    fill(lake)

    def run(*arguments: str) -> str:
        return CliRunner().invoke(command, list(arguments), catch_exceptions=False).stdout

    assert run("compact", str(lake)) == "compacted 4 files into 1; version 5\n"
    assert run("vacuum", str(lake), "--yes") == "0 files of 0 bytes removed\n"
    assert json.loads(run("vacuum", str(lake), "--dry-run", "--json")) == {
        "files": [],
        "size_bytes": 0,
    }
    assert json.loads(run("show", str(lake), "--json"))["rows"] == 8
    assert "WRITE" in run("show", str(lake))
