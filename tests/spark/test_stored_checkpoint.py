"""A checkpoint in an object store, for drivers whose disk does not survive them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest
from pyarrow.fs import copy_files

from pgsluice.errors import ConfigurationError, ConsumerInUseError, SluiceError
from pgsluice.lake.storage import files_in, filesystem, folder_at
from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.events import events
from pgsluice.pipelines.keeper import Keeper
from pgsluice.pipelines.options import CurrentStateOptions, StreamOptions
from pgsluice.spark.checkpoint import last_planned, query_id
from pgsluice.spark.java import find_java
from pgsluice.spark.stored_checkpoint import CheckpointCopy, address_of, publish_plan
from spark.conftest import LOG
from spark.lake_reading import lake_column
from spark.test_crash import database, driver
from spark.writing import Writers, insert
from support import value, wait_until
from support.object_store import ObjectStore
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["database"]


@pytest.fixture
def url(object_store: ObjectStore) -> str:
    return f"s3://lake/{uuid4()}"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary folders."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def restored(url: str, folder: Path) -> CheckpointCopy:
    folder.mkdir()
    return CheckpointCopy.restored(folder_at(url), folder)


def stored(url: str) -> set[str]:
    return {name for name, _, _ in files_in(folder_at(url))}


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"the content of {name}")


def test_the_next_driver_finds_the_files_of_the_last_one(url: str, tmp_path: Path):
    copy = restored(url, tmp_path / "a")
    write(
        copy.local,
        "offsets/0",
        "commits/0",
        "offsets/1",
        "consumer",
        ".offsets.1.crc",
        "written.new",
    )
    copy.publish()
    write(copy.local, "offsets/2", "unapplied/1.json")
    (copy.local / "offsets/0").unlink()
    copy.publish()

    again = restored(url, tmp_path / "b").local

    assert stored(url) == {
        "metadata", "owner", "consumer", "offsets/1", "offsets/2", "commits/0", "unapplied/1.json"
    }  # fmt: skip
    assert (again / "offsets/2").read_text() == "the content of offsets/2"
    assert (last_planned(again), query_id(again)) == (2, query_id(copy.local))
    assert (address_of(again), address_of(tmp_path)) == (url, str(tmp_path))


def test_a_plan_is_stored_after_all_that_it_implies(
    url: str, tmp_path: Path, object_store: ObjectStore
):
    copy = restored(url, tmp_path / "a")
    write(copy.local, "offsets/0", "commits/0", "unapplied/0.json", "offsets/1")

    object_store.fail("404", path="/unapplied/")
    with pytest.raises(SluiceError, match=f"the checkpoint {url} cannot be read or written"):
        copy.publish()
    assert stored(url) == {"metadata", "owner"}
    object_store.fail("404", path="/commits/")
    with pytest.raises(SluiceError):
        copy.publish()
    assert stored(url) == {"metadata", "owner", "unapplied/0.json", "offsets/0", "offsets/1"}
    copy.publish()
    assert "commits/0" in stored(url)


def test_a_query_stops_when_another_one_has_taken_over_its_checkpoint(url: str, tmp_path: Path):
    first, second = restored(url, tmp_path / "a"), restored(url, tmp_path / "b")
    write(first.local, "offsets/0")

    with pytest.raises(ConsumerInUseError, match=f"{url} was taken over by another query"):
        publish_plan(first.local, 0)
    with pytest.raises(ConsumerInUseError):
        first.publish()
    assert "offsets/0" not in stored(url)
    write(second.local, "offsets/0")
    publish_plan(second.local, 0)
    assert "offsets/0" in stored(url)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "object-store"])
def test_a_driver_without_the_former_disk_continues(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    url: str,
    tmp_path: Path,
    scratch: Path,
    kind: str,
):
    lake = str(tmp_path / "lake") if kind == "delta" else f"{url}/orders"
    checkpoint = f"{url}/orders.checkpoint"

    def run(lake: str, checkpoint: str) -> None:
        events(LOG, lake, checkpoint, dsn=database_18.url, once=True, spark=spark)
        assert list(scratch.glob("pgsluice-checkpoint-*")) == []

    insert(log, "a")
    run(lake, checkpoint)
    consumers = "select string_agg(consumer_name, ' ') from pgq.get_consumer_info()"
    consumer = value(log, consumers)
    insert(log, "b")
    run(lake, checkpoint)

    assert lake_column(lake, "ev_data") == ["a", "b"]
    assert value(log, consumers) == consumer
    assert value(log, "select sum(pending_events) from pgq.get_consumer_info()") == 0
    with pytest.raises(
        ConfigurationError, match=f"checkpoint {checkpoint} belongs to the lake table"
    ):
        events(
            LOG,
            tmp_path / "other",
            checkpoint,
            dsn=database_18.url,
            once=True,
            reading=StreamOptions(consumer="other"),
        )
    with pytest.raises(ConfigurationError, match=f"checkpoint {url}/new is new"):
        events(LOG, lake, f"{url}/new", dsn=database_18.url, once=True, spark=spark)


@pytest.mark.slow
def test_changes_that_are_not_applied_yet_survive_the_disk(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """Events in the lake are not read again, so the note of them must be stored."""
    monkeypatch.setitem(Keeper.__init__.__kwdefaults__, "report_s", 3600.0)
    lake, checkpoint, found = tmp_path / "lake", f"{url}/checkpoint", f"{url}/found"
    log.execute("create table account (id bigint primary key, name text)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    reading, state = StreamOptions(trigger_s=0.0), CurrentStateOptions(apply_every_s=3600.0)
    how = {"dsn": database_18.url, "reading": reading, "state": state, "spark": spark}
    with changes(LOG, lake, checkpoint, **how) as stream:
        log.execute("insert into account values (0, 'applied')")
        stream.catch_up()
        for number in (1, 2):
            log.execute("insert into account values (%s, 'pending')", (number,))
            log.execute("select sluice.log_tick(%s)", (LOG,))
            wait_until(
                lambda number=number: len(lake_column(lake / "events", "ev_id")) == number + 1,
                "the event to be in the lake",
            )
        current, before = lake / "current" / "public.account", tmp_path / "before"
        assert lake_column(current, "id") == [0]
        shutil.copytree(current, before)
        # What the next driver would find if this one were killed now.
        store = filesystem(folder_at(url))
        copy_files("checkpoint", "found", source_filesystem=store, destination_filesystem=store)
    shutil.rmtree(current)
    shutil.copytree(before, current)

    changes(LOG, lake, found, dsn=database_18.url, once=True, spark=spark)

    assert lake_column(current, "id") == [0, 1, 2]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_anywhere_a_driver_on_another_machine_continues(
    spark: SparkSession,
    database: Database,
    tmp_path: Path,
    home: Path,
    url: str,
    seed: int,
):
    lake, checkpoint = f"{url}/log", f"{url}/log.checkpoint"
    java = find_java(environ={"PATH": os.environ["PATH"], "PGSLUICE_HOME": str(home)}).home
    writers = Writers(database, count=4, seed=seed)
    plans = []
    with writers.running():
        for moment in ("after 0", "after 2"):
            with driver(
                database, tmp_path, moment, java, "ticks", lake=lake, checkpoint=checkpoint
            ) as run:
                run.wait_for("held")
                plans.append(
                    max(int(name[8:]) for name in stored(checkpoint) if name.startswith("offsets/"))
                )
    events(LOG, lake, checkpoint, dsn=database.url, once=True, spark=spark)

    assert plans == [0, 2]
    with database.connect() as connection:
        in_log = sorted(data for (data,) in connection.execute("select ev_data from pgq.event_1"))
    assert set(writers.committed) <= set(in_log)
    assert lake_column(lake, "ev_data") == in_log
