"""When micro-batches are applied to the current-state tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgsluice.lake.current_tables import Applied, read_applied
from pgsluice.lake.files import LakeFile
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state import applier as module
from pgsluice.pipelines.current_state.applier import Applier
from pgsluice.pipelines.current_state.event_files import Written
from pgsluice.pipelines.current_state.pending import Pending
from pgsluice.pipelines.current_state.pieces import in_turn
from pgsluice.pipelines.current_state.reading import Sources

MARK = (1, 0, "sluice.snapshot", "{}", "public.big", None)


class States:
    """Current-state tables with a number of rows, which remember what is applied to them."""

    def __init__(self, lake: Path, **rows: int) -> None:
        self.lake = tables_in(lake)
        self.rows = {TableName("public", name): count for name, count in rows.items()}
        self.applied: list[list[int]] = []

    def apply(self, files: dict[int, Any], sources: Sources, **_: Any) -> dict[TableName, int]:
        self.applied.append(list(files))
        return {name: self.rows[name] for name in sources.shapes}


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


class Stream:
    """A stream whose micro-batches are added to an applier."""

    def __init__(
        self, folder: Path, states: States, every_s: float | None, *, has_sink: bool = False
    ) -> None:
        self.states, self.folder = states, folder
        events: Any = type("Events", (), {"folder": folder / "events"})
        self.pending = Pending(folder / "unapplied")
        self.applier = Applier(
            states,  # type: ignore[arg-type]
            events,
            self.pending,
            tasks=lambda _: in_turn,
            every_s=every_s,
            has_sink=has_sink,
        )

    def add(self, batch_id: int, changes: int, *tables: str, marks: tuple[Any, ...] = ()) -> None:
        file = LakeFile(f"{batch_id}.parquet", 10, "{}", changes, 0.0)
        names = {TableName("public", name): {"": 1} for name in tables}
        self.applier.add("app", batch_id, Written([file], Sources(names), marks))


def test_an_update_waits_for_one_change_per_fifty_rows_or_fifteen_minutes(
    tmp_path: Path, clock: Clock
):
    states = States(tmp_path / "lake", big=100_000, small=40)
    stream = Stream(tmp_path, states, None)

    stream.add(0, 1, "big")  # the first one since the start
    stream.add(1, 1999, "big")
    assert states.applied == [[0]]
    assert read_applied(states.lake) == Applied("app", 0)
    stream.add(2, 1, "big")  # 2,000 changes of 100,000 rows
    assert states.applied == [[0], [1, 2]]
    assert read_applied(states.lake) is None

    stream.add(3, 1, "small")  # not yet seen, so its size is unknown
    stream.add(4, 1, "small")
    assert states.applied[2:] == [[3], [4]]
    stream.add(5, 1, "small", "big")
    clock.now += 899
    stream.applier.apply_pending("app")
    assert states.applied[4:] == []
    clock.now += 1
    stream.applier.apply_pending("app")
    assert states.applied[4:] == [[5]]
    assert read_applied(states.lake) is None


def test_the_marks_of_a_snapshot_do_not_wait(tmp_path: Path, clock: Clock):
    states = States(tmp_path / "lake", big=100_000)
    stream = Stream(tmp_path, states, None)
    stream.add(0, 1, "big")
    stream.add(1, 1, "big")
    stream.add(2, 0, marks=(MARK,))

    assert states.applied == [[0], [1, 2]]


def test_a_restart_applies_what_waits(tmp_path: Path, clock: Clock):
    states = States(tmp_path / "lake", big=100_000)
    first = Stream(tmp_path, states, None)
    first.add(0, 1, "big")
    first.add(1, 1, "big")
    second = Stream(tmp_path, states, None)
    assert read_applied(states.lake) == Applied("app", 0)

    second.add(2, 1, "big")

    assert states.applied == [[0], [1, 2]]
    assert read_applied(states.lake) is None
    assert Pending(tmp_path / "unapplied").all() == {}


def test_micro_batches_of_a_sink_in_another_process_are_applied_when_due(
    tmp_path: Path, clock: Clock
):
    states = States(tmp_path / "lake", small=40)
    stream = Stream(tmp_path, states, 60.0, has_sink=True)
    written = Written(
        [LakeFile("n.parquet", 10, "{}", 1, 0.0)],
        Sources({TableName("public", "small"): {"": 1}}),
    )
    stream.pending.add(0, written)
    stream.applier.apply_pending("app")
    stream.pending.add(1, written)
    stream.pending.add(2, written)
    stream.applier.apply_pending("app")
    assert states.applied == [[0]]

    clock.now += 60
    stream.applier.apply_pending("app")

    assert states.applied == [[0], [1, 2]]
    assert stream.pending.all() == {}
    # Not removed, or a micro-batch that the sink adds meanwhile would look applied.
    assert read_applied(states.lake) == Applied("app", 2)


@pytest.mark.parametrize(("every_s", "applied"), [(0.0, [[0], [1]]), (60.0, [[0]])])
def test_a_given_interval_is_kept_whatever_the_number_of_changes(
    tmp_path: Path, clock: Clock, every_s: float, applied: list[list[int]]
):
    states = States(tmp_path / "lake", small=40)
    stream = Stream(tmp_path, states, every_s)
    stream.add(0, 1, "small")
    stream.add(1, 1000, "small")

    assert states.applied == applied
