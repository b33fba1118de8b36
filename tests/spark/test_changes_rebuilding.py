"""Tables that the pipeline rebuilds itself: after schema changes, and after events that the log removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from pgsluice.cli.main import cli
from pgsluice.errors import SluiceError
from pgsluice.lake.current_tables import TableState, read_gaps, read_states, rebuild_requests
from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state import snapshot as snapshots
from pgsluice.pipelines.current_state.apply import CurrentStates
from pgsluice.pipelines.events import events
from pgsluice.verify import verify_changes
from spark.conftest import LOG
from spark.test_batch_reader import forget
from spark.test_changes import Place, only_delta, place
from support import rows, value, wait_until

__all__ = ["place"]
KEPT = "public.kept"
CHANGED = "public.changed"


def states_of(place: Place) -> dict[str, TableState]:
    return {str(name): state for name, state in read_states(place.current).items()}


def problems(place: Place) -> dict[str, str]:
    return dict(verify_changes(LOG, place.lake, dsn=place.dsn).problems)


def snapshots_of(log: psycopg.Connection, table: str) -> int:
    """Return the number of snapshots of a table that the log has."""
    query = (
        "select count(*) from pgq.event_1 where ev_type = 'sluice.snapshot' and ev_extra1 = %s "
        "and ev_data::json ->> 'state' = 'ended'"
    )
    return int(str(value(log, query, table)))


@pytest.fixture
def captured(place: Place, log: psycopg.Connection) -> psycopg.Connection:
    """Two captured tables in the lake, complete."""
    for name in ("kept", "changed"):
        log.execute(f"create table {name} (id int primary key, n numeric)")  # type: ignore[arg-type]
        log.execute("select sluice.capture(%s, %s)", (name, LOG))
        log.execute(f"insert into {name} select i, i + 0.5 from generate_series(1, 2500) as i")  # type: ignore[arg-type]
    place.run(snapshots=["kept", "changed"])
    assert problems(place) == {}
    return log


def change(log: psycopg.Connection) -> None:
    log.execute("alter table changed alter n type int")
    log.execute("insert into changed values (9001, 1)")
    log.execute("insert into kept values (9001, 1)")


@pytest.mark.slow
def test_table_is_rebuilt_after_a_schema_change(place: Place, captured: psycopg.Connection):
    change(captured)

    assert place.run(on_change="rebuild").progress().parked == ()

    assert place.equal(CHANGED)
    assert place.equal(KEPT)
    assert problems(place) == {}
    state = states_of(place)[CHANGED]
    assert (state.rebuild_reason, state.own_rebuilds, state.rebuilding) == (None, 0, False)
    assert snapshots_of(captured, CHANGED) == 2
    # It is not rebuilt again.
    captured.execute("delete from changed where id < 10")
    assert place.run(on_change="rebuild").progress().parked == ()
    assert place.equal(CHANGED)
    assert snapshots_of(captured, CHANGED) == 2


@pytest.mark.slow
def test_table_with_another_key_is_rebuilt_while_the_stream_runs(
    place: Place, captured: psycopg.Connection
):
    with place.run(on_change="rebuild", once=False, trigger_s=0.1, apply_every_s=0) as stream:
        captured.execute(
            "alter table changed drop constraint changed_pkey, add primary key (id, n)"
        )
        captured.execute("update changed set n = n + 1 where id <= 10")
        stream.catch_up()
        wait_until(
            lambda: problems(place) == {} and snapshots_of(captured, CHANGED) == 2, "the rebuild"
        )
        captured.execute("delete from changed where id = 5")
        stream.catch_up()
        assert stream.progress().parked == ()
    assert place.equal(CHANGED)


@pytest.mark.slow
def test_interrupted_rebuild_continues_in_the_next_run_whatever_its_options(
    place: Place, captured: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
):
    change(captured)
    append, calls = snapshots._append, []

    def fail_at_second(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError("died")
        return append(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(snapshots, "_append", fail_at_second)
    with pytest.raises(OSError, match="died"):
        place.run(on_change="rebuild")
    token = rebuild_requests(place.current)[TableName.parse(CHANGED)].token
    assert states_of(place)[CHANGED].rebuild == token
    assert (
        "the pipeline rebuilds it: column n was numeric and is integer" in problems(place)[CHANGED]
    )
    assert len(place.rows(CHANGED)) == 2500  # the last good version

    assert place.run().progress().parked == ()

    assert place.equal(CHANGED)
    assert problems(place) == {}
    assert len(calls) == 5  # four portions of rows, and the one that failed
    assert states_of(place)[CHANGED].rebuild == token


@pytest.mark.slow
def test_rebuild_begins_once_if_the_process_dies_after_the_request(
    place: Place, captured: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
):
    from pgsluice.pipelines.current_state import parking

    change(captured)

    def die(*_: object) -> None:
        raise OSError("died")

    with monkeypatch.context() as patch:
        patch.setattr(parking.Parking, "_begin", die)
        with pytest.raises(BaseException):  # noqa: B017 - of Spark's query
            place.run(on_change="rebuild")
    token = rebuild_requests(place.current)[TableName.parse(CHANGED)].token
    assert states_of(place)[CHANGED].rebuild != token

    assert place.run(on_change="rebuild").progress().parked == ()

    assert place.equal(CHANGED)
    assert states_of(place)[CHANGED].rebuild == token


@pytest.mark.slow
def test_table_that_cannot_be_rebuilt_is_parked_with_the_reason(
    place: Place, log: psycopg.Connection
):
    log.execute("create table changed (id int primary key, n numeric)")
    log.execute(
        "create trigger t after insert or update or delete on changed for each row "
        f"execute function pgq.jsontriga('{LOG}')"
    )
    log.execute("insert into changed values (1, 1.5)")
    place.run()
    log.execute("alter table changed drop constraint changed_pkey, add primary key (id, n)")
    log.execute("insert into changed values (2, 1)")

    assert place.run(on_change="rebuild").progress().parked == (CHANGED,)

    reason = str(states_of(place)[CHANGED].parked)
    assert reason.startswith("the key of public.changed was (id) and is (id, n)")
    assert "the pipeline cannot rebuild it (table public.changed is not captured into" in reason
    assert reason.endswith(
        f"rebuild the table: pgsluice lake rebuild {CHANGED} --lake {place.lake}"
    )
    assert len(place.rows(CHANGED)) == 1
    assert place.run(on_change="rebuild").progress().parked == (CHANGED,)


@pytest.mark.slow
def test_table_whose_schema_changes_in_each_rebuild_is_parked(
    place: Place, captured: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
):
    append, kinds = snapshots._append, ["numeric", "int"] * 5

    def change_type(*arguments: object) -> object:
        after = append(*arguments)  # type: ignore[arg-type]
        if after is not None:
            captured.execute(f"alter table changed alter n type {kinds.pop()}")  # type: ignore[arg-type]
            captured.execute("update changed set n = n + 1 where id = 2000")
        return after

    change(captured)
    monkeypatch.setattr(snapshots, "_append", change_type)

    assert place.run(on_change="rebuild").progress().parked == (CHANGED,)

    assert "changed again during 3 rebuilds" in str(states_of(place)[CHANGED].parked)
    assert place.equal(KEPT)


def unregister(log: psycopg.Connection) -> None:
    for (consumer,) in rows(log, "select consumer_name from pgq.get_consumer_info(%s)", LOG):
        log.execute("select pgq.unregister_consumer(%s, %s)", (LOG, consumer))


def exceed_limits(log: psycopg.Connection) -> None:
    log.execute("select sluice.set_log_options(%s, '{\"max_lag_events\": 1}')", (LOG,))


def lose_events(
    log: psycopg.Connection, lose: Callable[[psycopg.Connection], None] = unregister
) -> None:
    """Remove events that are not in the lake from the log, as after its consumer was unregistered."""
    lose(log)
    log.execute("delete from changed where id <= 100")
    log.execute("insert into kept values (9001, 1)")
    forget(log)
    log.execute("select sluice.set_log_options(%s, '{\"max_lag_events\": null}')", (LOG,))
    assert value(log, "select count(*) from pgq.event_1") == 0
    log.execute("insert into kept values (9002, 1)")


@pytest.mark.slow
@pytest.mark.parametrize("lose", [unregister, exceed_limits])
def test_lost_events_are_skipped_and_all_tables_rebuilt_if_wanted(
    place: Place,
    captured: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
    lose: Callable[[psycopg.Connection], None],
):
    lose_events(captured, lose)
    for _ in range(2):
        with pytest.raises(SluiceError, match="--after-loss rebuild") as failure:
            place.run()
        assert "failOnDataLoss" not in str(failure.value)
    assert not place.equal(CHANGED)

    progress = place.run(after_loss="rebuild").progress()

    assert progress.parked == ()
    assert place.equal(CHANGED)
    assert place.equal(KEPT)
    assert problems(place) == {}
    assert "events lost: the table of events has a gap after tick " in caplog.text
    (gap,) = verify_changes(LOG, place.lake, dsn=place.dsn).gaps
    assert gap == str(read_gaps(place.current)[0])
    # It is skipped once.
    tokens = rebuild_requests(place.current)
    captured.execute("delete from changed where id <= 200")
    assert place.run(after_loss="rebuild").progress().parked == ()
    assert place.equal(CHANGED)
    assert rebuild_requests(place.current) == tokens
    assert len(read_gaps(place.current)) == 1


@pytest.mark.slow
@only_delta
def test_rebuild_after_lost_events_continues_in_a_run_with_other_options(
    place: Place, captured: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
):
    lose_events(captured)

    def die(*_: object) -> None:
        raise OSError("died")

    with monkeypatch.context() as patch:  # after the gap was recorded
        patch.setattr(CurrentStates, "clean", die)
        with pytest.raises(OSError, match="died"):
            place.run(after_loss="rebuild")
    tokens = rebuild_requests(place.current)
    assert {str(name) for name in tokens} == {CHANGED, KEPT}
    assert len(read_gaps(place.current)) == 1

    def committed() -> int:
        return len(list((place.checkpoint / "commits").glob("[0-9]*")))

    before = committed()

    def die_after_a_batch(*_: object) -> None:  # so that the stream is past the lost events
        wait_until(lambda: committed() > before, "a batch after the lost events", 120)
        raise OSError("died")

    with monkeypatch.context() as patch:
        patch.setattr(snapshots.Rebuilds, "take_next", die_after_a_batch)
        with pytest.raises(OSError, match="died"):
            place.run(after_loss="rebuild")
    assert rebuild_requests(place.current) == tokens
    assert len(read_gaps(place.current)) == 1
    assert all(
        "the pipeline rebuilds it: events were lost" in one for one in problems(place).values()
    )
    assert problems(place).keys() == {CHANGED, KEPT}

    assert place.run().progress().parked == ()

    assert place.equal(CHANGED)
    assert place.equal(KEPT)
    assert problems(place) == {}


@pytest.mark.slow
@only_delta
def test_events_pipeline_names_its_own_options_after_lost_events(
    place: Place, captured: psycopg.Connection, tmp_path: Path
):
    lake, checkpoint = tmp_path / "all", tmp_path / "all.checkpoint"
    events(LOG, lake, checkpoint, dsn=place.dsn, spark=place.spark, once=True)
    lose_events(captured)

    with pytest.raises(SluiceError, match="start with another --checkpoint and another --lake$"):
        events(LOG, lake, checkpoint, dsn=place.dsn, spark=place.spark, once=True)


def command(*arguments: object) -> str:
    return CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False).stdout


@pytest.mark.slow
@only_delta
def test_state_of_each_table_is_shown(place: Place, captured: psycopg.Connection):
    log, dsn = captured, ("--dsn", place.dsn)
    words = {
        "renamed": "alter table changed rename n to m",
        "widened": "alter table changed rename m to n; alter table kept alter id type bigint",
        "redefined": "alter table changed alter n type int",
    }
    seen = {}
    for word, statements in words.items():
        for statement in statements.split(";"):
            log.execute(statement)  # type: ignore[arg-type]
        (found,) = json.loads(command("pipeline", "status", "--json", *dsn))["pipelines"]
        seen[word] = {name: one["state"] for name, one in found["tables"].items()}
    assert seen == {
        "renamed": {CHANGED: "renamed", KEPT: "same"},
        "widened": {CHANGED: "same", KEPT: "widened"},
        "redefined": {CHANGED: "redefined", KEPT: "widened"},
    }
    redefined = f"{CHANGED}: redefined: column n was numeric and is integer"
    assert redefined in command("pipeline", "status", *dsn)

    log.execute("insert into changed values (9001, 1)")
    place.run()
    parked = f"{CHANGED}: parked: parked since 20"
    for shown in (
        command("pipeline", "status", *dsn),
        command("explain", "consumer", LOG, found["consumer_name"], *dsn),
    ):
        assert parked in shown
        assert f"pgsluice lake rebuild {CHANGED}" in shown
    verified = command("pipeline", "verify", "changes", "--log", LOG, "--lake", place.lake, *dsn)
    assert f"{KEPT}: complete since 20" in verified
    assert verified.splitlines()[0].endswith(", widened in PostgreSQL")

    place.folder.rename(place.folder.with_name("moved"))
    assert f"tables of {place.lake} not shown: " in command("pipeline", "status", *dsn)
