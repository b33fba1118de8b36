"""The consumer of a stream: held by one query at a time, and moved after each micro-batch."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgsluice.client import EventLog
from pgsluice.errors import ConsumerInUseError, SluiceError
from pgsluice.pipelines.events import events
from pgsluice.pipelines.keeper import Keeper
from pgsluice.pipelines.options import StreamOptions
from pgsluice.spark.running import Progress
from pgsluice.spark.shards import LogShard, decode, open_shards
from spark.conftest import LOG
from spark.lake_reading import lake_column
from spark.writing import insert
from support import value, wait_until
from support.pooler import pooling
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Query:
    """A query whose progress the test sets."""

    def __init__(self, shards: dict[str, LogShard]) -> None:
        self.shards = shards
        self.now = Progress()
        self.is_active = True
        self.store_fails = False
        self.store_failed = threading.Event()

    def keep(self, keeper: Keeper) -> None:
        keeper.start(
            lambda: (self.now, decode(self.now.offset, self.shards) if self.now.offset else {}),
            is_active=lambda: self.is_active,
            end=self.end,
            before_commit=self.before_commit,
        )

    def end(self) -> None:
        self.is_active = False

    def before_commit(self) -> None:
        if self.store_fails:
            self.store_failed.set()
            raise SluiceError("the store failed")


@pytest.fixture
def shards(log: psycopg.Connection, database_18: Database) -> Iterator[dict[str, LogShard]]:
    found = open_shards({"dsn": database_18.url, "log": LOG, "consumer": "c"})
    yield found
    for shard in found.values():
        shard.close()


def keeper_of(shards: dict[str, LogShard], lake: str = "/a", wait_s: float = 0) -> Keeper:
    return Keeper(shards, kind="events", lake=lake, hold_deadline_s=wait_s, report_s=0.05)


def holder(log: psycopg.Connection) -> int | None:
    return value(log, "select sluice._pipeline_holder('log 1 consumer c')")


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_keeper_of_a_driver_whose_java_was_killed_ends_without_an_error(
    log: psycopg.Connection, shards: dict[str, LogShard]
):
    asked = threading.Event()

    def refuse() -> Any:
        asked.set()
        raise ConnectionRefusedError

    keeper = keeper_of(shards)
    keeper.hold()
    keeper.start(refuse, is_active=refuse, end=refuse, before_commit=refuse)
    assert asked.wait(20)

    keeper.close()

    wait_until(lambda: holder(log) is None, "the session to end")


def test_second_query_is_refused_with_the_first_ones_session(
    log: psycopg.Connection, shards: dict[str, LogShard]
):
    first, second = keeper_of(shards), keeper_of(shards, "/b")
    first.hold()

    with pytest.raises(ConsumerInUseError) as refused:
        second.hold()

    pid = holder(log)
    assert f"consumer 'c' of event log 'log' is in use by pid {pid}, " in str(refused.value)
    assert "application 'pgsluice pipeline'" in str(refused.value)
    assert "for the lake /a; stop that query, or use another consumer" in str(refused.value)
    first.close()
    wait_until(lambda: holder(log) is None, "the consumer to be released")
    second.hold()
    second.close()


def test_start_waits_for_the_session_of_a_killed_driver_to_end(
    log: psycopg.Connection, shards: dict[str, LogShard]
):
    first, second = keeper_of(shards), keeper_of(shards, wait_s=30)
    first.hold()
    log.execute("select pg_terminate_backend(%s)", (holder(log),))

    second.hold()

    assert holder(log) is not None
    first.close()
    second.close()


def test_position_does_not_move_before_the_checkpoint_is_stored(
    log: psycopg.Connection, shards: dict[str, LogShard]
):
    keeper, query = keeper_of(shards), Query(shards)
    shard, position = shards[""], "select last_tick from pgq.get_consumer_info('log', 'c')"
    first = shard.first()
    insert(log, "1")
    end = shard.now()
    assert end.tick != first.tick
    keeper.hold()
    query.store_fails = True
    query.now = Progress(rows=1, micro_batches=1, offset=end.to_dict())
    query.keep(keeper)
    wait_until(lambda: query.store_failed.is_set(), "the store to fail")
    assert value(log, position) == first.tick
    query.store_fails = False

    wait_until(lambda: value(log, position) == end.tick, "the position to move")
    keeper.close()


def test_consumer_is_held_again_after_a_lost_connection(
    log: psycopg.Connection, shards: dict[str, LogShard]
):
    keeper, query = keeper_of(shards, wait_s=30), Query(shards)
    keeper.hold()
    query.keep(keeper)
    before = holder(log)

    log.execute("select pg_terminate_backend(%s)", (before,))

    wait_until(lambda: holder(log) not in (None, before), "another session to hold the consumer")
    keeper.close()
    assert keeper.failure is None


def test_query_ends_if_another_one_takes_its_consumer(
    log: psycopg.Connection, database_18: Database, shards: dict[str, LogShard]
):
    keeper, query = keeper_of(shards), Query(shards)
    keeper.hold()
    with database_18.connect() as other:
        # It waits for the lock, and gets it before the first one reconnects.
        other.execute("select pg_terminate_backend(%s, 10000)", (holder(log),))
        other.execute(
            "select sluice.hold_pipeline('log', 'c', 'events', '/b', %s)",
            (other.info.backend_pid,),
        )
        query.keep(keeper)

        wait_until(lambda: not query.is_active, "the query to end")

    assert "for the lake /b" in str(keeper.failure)
    keeper.close()


def test_consumer_is_released_when_its_query_has_ended(
    log: psycopg.Connection, shards: dict[str, LogShard]
):
    keeper, query = keeper_of(shards), Query(shards)
    keeper.hold()
    query.end()

    query.keep(keeper)

    wait_until(lambda: holder(log) is None, "the consumer to be released")
    keeper.close()


def test_behind_a_pooler_a_stream_starts_with_a_warning(
    log: psycopg.Connection,
    database_18: Database,
    servers_folder: Path,
    caplog: pytest.LogCaptureFixture,
):
    with pooling(database_18.url, servers_folder) as dsn:
        shards = open_shards({"dsn": dsn, "log": LOG, "consumer": "c"})
        keeper = keeper_of(shards)
        keeper.hold()
        keeper.close()

    assert "would not be detected behind a pooler" in caplog.text


@pytest.mark.slow
def test_lag_is_that_of_the_lake_without_another_micro_batch(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(Keeper.__init__.__kwdefaults__, "report_s", 0.2)
    lake = tmp_path / "lake"
    for number in range(5):
        insert(log, str(number))
    with events(
        LOG,
        lake,
        tmp_path / "checkpoint",
        dsn=database_18.url,
        spark=spark,
        reading=StreamOptions(trigger_s=0.1),
    ) as stream:
        stream.catch_up()

        wait_until(
            lambda: (
                [(one.lag_events, one.row_count) for one in EventLog(log).list_pipelines()]
                == [(0, 5)]
            ),
            "the consumer's position to reach that of the lake",
        )

        (state,) = EventLog(log).list_pipelines()
        assert (state.kind, state.lake, state.is_running) == ("events", str(lake), True)
        assert state.lag_s == 0
        assert state.last_commit_at is not None
        assert stream.progress().rows_left == 0
        reported = json.loads(stream.query.lastProgress["sources"][0]["latestOffset"])
        assert reported["tick"] >= stream.tick > 1
        assert value(log, "select pending_events from pgq.get_consumer_info('log')") == 0
    wait_until(
        lambda: [one.is_running for one in EventLog(log).list_pipelines()] == [False],
        "the session that held the consumer to end",
    )


@pytest.mark.slow
def test_two_streams_under_one_consumer_name_are_refused(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(Keeper.__init__.__kwdefaults__, "hold_deadline_s", 0.5)

    def run(lake: str, checkpoint: str, **options: object) -> None:
        events(
            LOG, tmp_path / lake, tmp_path / checkpoint, dsn=database_18.url, once=True,
            spark=spark, reading=StreamOptions(**options),
        )  # fmt: skip

    insert(log, "1")
    run("a", "c", consumer="name")
    for old, new in (("a", "b"), ("c", "d")):
        shutil.copytree(tmp_path / old, tmp_path / new)
    with events(
        LOG,
        tmp_path / "a",
        tmp_path / "c",
        dsn=database_18.url,
        spark=spark,
        reading=StreamOptions(trigger_s=0.1),
    ) as stream:
        with pytest.raises(ConsumerInUseError, match=f"for the lake {tmp_path / 'a'}; stop"):
            run("b", "d")
        with pytest.raises(ConsumerInUseError, match="consumer 'name' of event log 'log'"):
            run("e", "f", consumer="name")
        insert(log, "2")
        stream.catch_up()

    assert not (tmp_path / "e").exists()
    run("b", "d")
    assert lake_column(tmp_path / "a", "ev_data") == ["1", "2"]
    assert lake_column(tmp_path / "b", "ev_data") == ["1", "2"]
