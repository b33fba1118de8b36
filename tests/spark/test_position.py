"""The position of a stream: lakes and checkpoints that are moved, copied, exchanged or restored."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.address import parse
from pgsluice.lake.iceberg.catalog import opened_catalog
from pgsluice.lake.properties import property_of
from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.events import events
from pgsluice.pipelines.options import StreamOptions
from spark.conftest import LOG
from spark.lake_reading import iceberg_rows, lake_column
from spark.writing import insert
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Site:
    """Lakes and checkpoints by name in one folder, streamed from one log."""

    spark: SparkSession
    log: psycopg.Connection
    dsn: str
    folder: Path

    def run(self, lake: str, checkpoint: str, consumer: str | None = None) -> str | list[str]:
        """Stream everything committed into a lake; return its events, or the error."""
        try:
            events(
                LOG,
                self.folder / lake,
                self.folder / checkpoint,
                dsn=self.dsn,
                once=True,
                spark=self.spark,
                reading=StreamOptions(consumer=consumer),
            )
        except SluiceError as error:
            return str(error)
        return lake_column(self.folder / lake, "ev_data")

    def move(self, old: str, new: str) -> None:
        (self.folder / old).rename(self.folder / new)

    def copy(self, old: str, new: str) -> None:
        shutil.copytree(self.folder / old, self.folder / new)

    def insert(self, data: str) -> None:
        insert(self.log, data)

    def consumers(self) -> list[str]:
        rows = self.log.execute(
            "select co_name from pgq.subscription join pgq.consumer on co_id = sub_consumer order by co_name"
        )
        return [name for (name,) in rows]

    def unregister(self) -> None:
        for name in self.consumers():
            self.log.execute("select pgq.unregister_consumer(%s, %s)", (LOG, name))

    def forget_events(self) -> None:
        """Remove the ticks and so the events that no consumer needs."""
        self.log.execute("select sluice.log_tick(%s)", (LOG,))
        self.log.execute("delete from pgq.tick where tick_id < (select max(tick_id) from pgq.tick)")


@pytest.fixture
def site(
    spark: SparkSession, log: psycopg.Connection, database_18: Database, tmp_path: Path
) -> Site:
    return Site(spark, log, database_18.url, tmp_path)


def lake_moved(site: Site) -> object:
    site.move("a", "b")
    return site.run("b", "c")


def checkpoint_moved(site: Site) -> object:
    site.move("c", "d")
    return site.run("a", "d")


def both_moved(site: Site) -> object:
    site.move("a", "b")
    site.move("c", "d")
    return site.run("b", "d")


def both_moved_and_unregistered(site: Site) -> object:
    site.unregister()
    return both_moved(site)


def both_copied(site: Site) -> object:
    site.copy("a", "b")
    site.copy("c", "d")
    assert site.run("b", "d") == ["1", "2"]
    return site.run("a", "c")


def both_copied_and_events_removed(site: Site) -> object:
    site.copy("a", "b")
    site.copy("c", "d")
    assert site.run("b", "d") == ["1", "2"]
    site.forget_events()
    return site.run("a", "c")


def lake_copied(site: Site) -> object:
    site.copy("a", "b")
    assert site.run("b", "c") == ["1", "2"]
    site.insert("3")
    return site.run("a", "c")


def lake_restored_from_a_backup(site: Site) -> object:
    site.copy("a", "backup")
    assert site.run("a", "c") == ["1", "2"]
    shutil.rmtree(site.folder / "a")
    site.move("backup", "a")
    site.insert("3")
    return site.run("a", "c")


def checkpoint_copied(site: Site) -> object:
    site.copy("c", "d")
    assert site.run("a", "d") == ["1", "2"]
    site.insert("3")
    return site.run("a", "c")


def lakes_exchanged(site: Site) -> object:
    assert site.run("b", "d", "other") == ["1", "2"]
    return site.run("b", "c")


def consumer_changed(site: Site) -> object:
    found = site.run("a", "c", "another")
    assert "another" in site.consumers()
    return found


def consumer_changed_and_events_removed(site: Site) -> object:
    site.unregister()
    site.forget_events()
    return site.run("a", "c", "another")


def consumer_unregistered(site: Site) -> object:
    site.unregister()
    return site.run("a", "c")


def log_recreated(site: Site) -> object:
    site.unregister()
    site.log.execute("select pgq.drop_queue(%s)", (LOG,))
    site.log.execute("select pgq.create_queue(%s)", (LOG,))
    site.insert("2")
    return site.run("a", "c")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lake_moved, ["1", "2"]),
        (checkpoint_moved, ["1", "2"]),
        (both_moved, ["1", "2"]),
        (both_moved_and_unregistered, ["1", "2"]),
        (both_copied, ["1", "2"]),
        (both_copied_and_events_removed, "no longer keeps tick"),
        (lake_copied, "the lake table .*/a lacks rows that .*/c has written"),
        (lake_restored_from_a_backup, "the lake table .*/a lacks rows that .*/c has written"),
        (checkpoint_copied, "the lake table .*/a has rows that .*/c has not written"),
        (lakes_exchanged, "the lake table .*/b holds rows of another checkpoint than .*/c"),
        (consumer_changed, ["1", "2"]),
        (consumer_changed_and_events_removed, "no longer keeps tick"),
        (consumer_unregistered, ["1", "2"]),
        (log_recreated, "dropped and recreated"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_no_event_is_lost_or_duplicated_by_a_change_around_the_stream(
    site: Site, change: Callable[[Site], object], expected: str | list[str]
):
    site.insert("1")
    assert site.run("a", "c") == ["1"]
    site.insert("2")

    found = change(site)

    if isinstance(expected, list):
        assert found == expected
    else:
        assert isinstance(found, str)
        assert re.search(expected, found)


@pytest.mark.slow
def test_iceberg_table_that_is_renamed_keeps_its_consumer(site: Site, home: Path, tmp_path: Path):
    pytest.importorskip("pyiceberg", reason="needs pgsluice[iceberg]")
    (home / ".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    uri: sqlite:///{tmp_path}/c.db\n    warehouse: {tmp_path}/w\n"
    )

    def run(table: str) -> list[str]:
        checkpoint = tmp_path / "checkpoint"
        events(LOG, f"iceberg:lake/{table}", checkpoint, dsn=site.dsn, once=True, spark=site.spark)
        return sorted(iceberg_rows(f"iceberg:lake/{table}")["ev_data"].to_pylist())

    site.insert("1")
    assert run("shop.a") == ["1"]
    before = site.consumers()
    with opened_catalog("lake") as catalog:
        catalog.rename_table("shop.a", "shop.b")
    (tmp_path / "checkpoint" / "consumer").unlink()
    site.insert("2")

    assert run("shop.b") == ["1", "2"]
    assert (
        site.consumers()
        == before
        == [property_of(parse("iceberg:lake/shop.b"), "pgsluice.consumer")]
    )


@pytest.mark.slow
def test_lake_of_changes_that_is_restored_from_a_backup_is_refused(site: Site, tmp_path: Path):
    def run() -> None:
        changes(LOG, tmp_path / "a", tmp_path / "c", dsn=site.dsn, once=True, spark=site.spark)

    site.log.execute("create table account (id int primary key)")
    site.log.execute("select sluice.capture('account', %s)", (LOG,))
    site.log.execute("insert into account values (1)")
    run()
    site.copy("a", "backup")
    site.log.execute("insert into account values (2)")
    run()
    shutil.rmtree(tmp_path / "a")
    site.move("backup", "a")

    with pytest.raises(ConfigurationError, match="lacks rows that .*/c has written"):
        run()
