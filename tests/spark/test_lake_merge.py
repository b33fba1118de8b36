"""Merging rows by key: the highest seq wins; late and repeated rows change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.delta import merge as merging
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.lake.iceberg.catalog import opened_catalog
from pgsluice.lake.iceberg.mutable import IcebergMutableTable
from pgsluice.spark.lake_tables import iceberg_table
from pgsluice.spark.upsert import has_merge, merge_statement, upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "item string, `a b` int, seq bigint"


def rows(lake: Path) -> list[tuple[object, ...]]:
    there = open_dataset(lake).to_table().to_pylist()
    return sorted(tuple(row.values()) for row in there)


@pytest.mark.slow
def test_rows_take_the_place_of_those_with_their_key(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lake = tmp_path / "lake"

    def apply(version: int, *changes: tuple[str | None, int, int]) -> bool:
        frame = spark.createDataFrame([*changes], COLUMNS)
        return upsert(lake, frame, key=["item"], seq="seq", app_id="stock", version=version)

    assert apply(0, ("apple", 1, 1), ("pear", 1, 2), ("apple", 2, 3))
    assert rows(lake) == [("apple", 2, 3), ("pear", 1, 2)]

    assert not apply(0, ("apple", 9, 9))  # again
    assert apply(1, ("apple", 0, 2), ("fig", 5, 4), ("pear", 7, 5))  # the first row is late
    assert rows(lake) == [("apple", 2, 3), ("fig", 5, 4), ("pear", 7, 5)]

    with pytest.raises(Exception, match=r"a row has null in its key \(item\)"):
        apply(2, (None, 1, 1))

    # Another writer deletes a row between our read of the table and our commit.
    commit = merging.commit_durably

    def delete_and_commit(table: DeltaTable, folder: Path) -> object:
        monkeypatch.setattr(merging, "commit_durably", commit)
        DeltaTable(str(lake)).delete("item = 'pear'")
        return commit(table, folder)

    monkeypatch.setattr(merging, "commit_durably", delete_and_commit)
    assert apply(2, ("fig", 6, 6))
    assert rows(lake) == [("apple", 2, 3), ("fig", 6, 6)]

    with pytest.raises(ConfigurationError, match="not nothing"):
        upsert(lake, spark.range(1), key=["nothing"], seq="id", app_id="a", version=0)
    few = spark.createDataFrame([("fig", 7)], "item string, seq bigint")
    with pytest.raises(ConfigurationError, match="the rows lack the columns a b of the lake table"):
        upsert(lake, few, key=["item"], seq="seq", app_id="a", version=0)


@pytest.mark.slow
def test_rows_take_the_place_of_those_with_their_key_in_an_iceberg_table(
    spark: SparkSession, iceberg: str, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("pyiceberg", reason="needs pgsluice[iceberg]")
    lake = f"{iceberg}.stock"

    def apply(version: int, *changes: tuple[str | None, int, int], app_id: str = "stock") -> bool:
        frame = spark.createDataFrame([*changes], COLUMNS)
        return upsert(lake, frame, key=["item"], seq="seq", app_id=app_id, version=version)

    def there() -> list[tuple[object, ...]]:
        with opened_catalog("lake") as catalog:
            found = catalog.load_table("shop.stock").scan().to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in found)

    assert apply(0, ("apple", 1, 1), ("pear", 1, 2), ("apple", 2, 3))
    assert there() == [("apple", 2, 3), ("pear", 1, 2)]

    assert not apply(0, ("apple", 9, 9))  # again
    assert apply(1, ("apple", 0, 2), ("fig", 5, 4), ("pear", 7, 5))  # the first row is late
    assert there() == [("apple", 2, 3), ("fig", 5, 4), ("pear", 7, 5)]

    with pytest.raises(Exception, match=r"a row has null in its key \(item\)"):
        apply(2, (None, 1, 1))

    # Another writer commits between our read of the table and our commit.
    merge = IcebergMutableTable.merge

    def meanwhile(table: IcebergMutableTable, *what: object) -> None:
        monkeypatch.setattr(IcebergMutableTable, "merge", merge)
        assert apply(0, ("kiwi", 3, 6), app_id="other")
        merge(table, *what)  # type: ignore[arg-type]

    monkeypatch.setattr(IcebergMutableTable, "merge", meanwhile)
    assert apply(2, ("fig", 6, 7))
    assert there() == [("apple", 2, 3), ("fig", 6, 7), ("kiwi", 3, 6), ("pear", 7, 5)]

    few = spark.createDataFrame([("fig", 7)], "item string, seq bigint")
    with pytest.raises(ConfigurationError, match="the rows lack the columns a b of the lake table"):
        upsert(lake, few, key=["item"], seq="seq", app_id="a", version=0)
    iceberg_table(IcebergAddress("lake", "shop.parts"), few.schema, partition_by=["item"]).create()
    with pytest.raises(ConfigurationError, match=r"the lake table .*shop.parts has partitions"):
        upsert(f"{iceberg}.parts", few, key=["item"], seq="seq", app_id="a", version=0)


def test_without_deltas_jar_there_is_no_merge_and_its_statement_is_sparks(spark: SparkSession):
    statement = merge_statement("/lake/it's", "s", ["item", "a b", "seq"], ["item"], "seq")

    assert not has_merge(spark)
    # Spark without the jar can only parse the statement.
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(statement).toString()
    assert "MergeIntoTable" in plan
    assert statement.splitlines() == [
        "merge into delta.`/lake/it's` as t using `s` as s on t.`item` = s.`item`",
        "when matched and s.`seq` > t.`seq` then update set "
        "t.`item` = s.`item`, t.`a b` = s.`a b`, t.`seq` = s.`seq`",
        "when not matched then insert (`item`, `a b`, `seq`) values (s.`item`, s.`a b`, s.`seq`)",
    ]
