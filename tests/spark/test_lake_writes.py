"""Writes to lake tables by column name: missing and new columns, overwrites, and writers at the same time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, Schema
from pyspark.errors import PySparkException

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.address import parse
from pgsluice.lake.archived import open_archived
from pgsluice.lake.delta import commits
from pgsluice.lake.delta import table as delta_table
from pgsluice.lake.iceberg import table as iceberg_module
from pgsluice.lake.iceberg.catalog import opened_catalog
from pgsluice.lake.jobs import compact, show
from pgsluice.lake.table import LakeTable, Replace
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.schemas import arrow_schema, struct
from spark.lake_reading import iceberg_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyiceberg", reason="needs pgsluice[iceberg]")

ICEBERG = "iceberg:lake/events.orders"
Row = dict[str, Any]


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a table, which does not exist."""
    if request.param == "delta":
        return str(tmp_path / "lake")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path / 'catalogue.db'}")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", str(tmp_path / "warehouse"))
    return ICEBERG


def prepared(
    lake: str, rows: list[Row], merge: bool = False, by: str = "", **columns: str
) -> tuple[LakeTable, tuple]:
    """A table as a writer of these rows sees it, and the written files."""
    schema = struct(**columns)
    table = table_at(lake, schema, partition_by=[by] if by else (), merge_schema=merge)
    batches = [pa.RecordBatch.from_pylist(rows, arrow_schema(schema))]
    return table, table.write(batches, part=0)


def write(
    lake: str,
    rows: list[Row],
    *,
    replace: Replace | None = None,
    app: tuple[str, int] | tuple[None, None] = (None, None),
    **columns: Any,
) -> bool:
    table, files = prepared(lake, rows, **columns)
    return table.commit(files, app_id=app[0], version=app[1], replace=replace)


def rows_of(lake: str) -> list[Row]:
    """The rows as another tool reads them."""
    if lake == ICEBERG:
        found = iceberg_rows(lake)
    else:
        query = QueryBuilder().register("t", DeltaTable(lake))
        found = pa.table(query.execute("select * from t"))
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def ids(lake: str) -> list[int]:
    return [row["id"] for row in rows_of(lake)]


def commits_of(lake: str) -> int:
    return len(show(lake, history=100).history)


def at_once(*acts: Callable[[], object]) -> None:
    with ThreadPoolExecutor(len(acts)) as pool:
        for done in [pool.submit(act) for act in acts]:
            done.result()


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call `act` when the next commit has read the table and not yet changed it."""
    claim = commits.claim

    def then(*arguments: Any) -> None:
        for module in (commits, iceberg_module):
            monkeypatch.setattr(module, "claim", claim)
        claim(*arguments)
        act()

    for module in (commits, iceberg_module):
        monkeypatch.setattr(module, "claim", then)


def test_columns_are_matched_by_name_and_missing_ones_are_null(lake: str):
    write(lake, [{"id": 1, "a": "x", "b": 1.5}], id="long", a="string", b="double")
    write(lake, [{"b": 2.5, "id": 2}], b="double", id="long")

    assert rows_of(lake) == [{"id": 1, "a": "x", "b": 1.5}, {"id": 2, "a": None, "b": 2.5}]


def test_unknown_columns_are_refused_with_the_option_that_adds_them(lake: str):
    write(lake, [{"id": 1}], id="long")

    with pytest.raises(ConfigurationError, match="has no column 'a', 'b', only id; .*mergeSchema"):
        write(lake, [{"id": 2}], a="long", id="long", b="long")


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": "integer"}, "column 'id' is int32 in the rows and int64 in the lake table"),
        ({"id": "string"}, "column 'id' is string in the rows and int64 in the lake table"),
        ({"id": "long", "price": "decimal(9,2)"}, r"'price' is decimal128\(9, 2\) in the rows"),
        ({"id": "long", "ID": "long"}, "the rows have the column 'ID' twice"),
        ({"Id": "long"}, "'Id' of the rows differs from 'id' of the lake table .* only in case"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    lake: str, merge: bool, columns: dict[str, str], message: str
):
    write(lake, [{"id": 1}], id="long", price="decimal(5,2)")

    with pytest.raises(ConfigurationError, match=message):
        table_at(lake, struct(**columns), merge_schema=merge)


def test_merge_schema_adds_nullable_columns(lake: str):
    write(lake, [{"id": 1}], id="long")
    early = prepared(lake, [{"id": 2}], id="long")

    write(lake, [{"b": "y", "id": 3}], merge=True, b="string", id="long", c="timestamp_ntz")
    early[0].commit(early[1], app_id=None, version=None)
    write(lake, [{"id": 4}], merge=True, id="long")

    with_b = {3: "y"}
    assert rows_of(lake) == [{"id": i, "b": with_b.get(i), "c": None} for i in (1, 2, 3, 4)]


def test_writers_that_add_columns_at_once_lose_nothing(lake: str):
    write(lake, [{"id": 0}], id="long")
    acts = [
        lambda i=i: write(
            lake, [{"id": i, f"c{i % 3}": i}], merge=True, **{"id": "long", f"c{i % 3}": "long"}
        )
        for i in range(1, 7)
    ]

    at_once(*acts)

    rows = rows_of(lake)
    assert [row["id"] for row in rows] == list(range(7))
    for row in rows[1:]:
        values = {name: value for name, value in row.items() if name != "id"}
        assert set(values) == {"c0", "c1", "c2"}
        assert {k: v for k, v in values.items() if v is not None} == {
            f"c{row['id'] % 3}": row["id"]
        }


def test_a_column_added_with_another_type_meanwhile_is_refused(lake: str):
    write(lake, [{"id": 1}], id="long")
    late, files = prepared(lake, [{"id": 2, "a": 2}], merge=True, id="long", a="long")
    write(lake, [{"id": 3, "a": "x"}], merge=True, id="long", a="string")

    with pytest.raises(ConfigurationError, match="'a' is int64 in the rows and string in"):
        late.commit(files, app_id=None, version=None)

    assert ids(lake) == [1, 3]


def test_null_is_refused_where_the_table_does_not_allow_it(lake: str):
    required = pa.schema([pa.field("id", pa.int64(), False), pa.field("a", pa.string())])
    if lake == ICEBERG:
        with opened_catalog("lake") as catalog:
            catalog.create_namespace("events")
            catalog.create_table("events.orders", required)
    else:
        DeltaTable.create(lake, Schema.from_arrow(required))

    with pytest.raises(ConfigurationError, match="the rows lack the column 'id'"):
        write(lake, [{"a": "x"}], a="string")
    with pytest.raises(SluiceError, match="column 'id' holds null"):
        write(lake, [{"id": None}], id="long")

    write(lake, [{"id": 1}], id="long")
    assert rows_of(lake) == [{"id": 1, "a": None}]


def test_overwrite_replaces_all_rows_in_one_commit(lake: str):
    write(lake, [{"id": 1, "a": "x"}], id="long", a="string")
    write(lake, [{"id": 2}], id="long")
    before = commits_of(lake)

    assert write(lake, [{"id": 3}], replace=Replace.TABLE, app=("app", 0), id="long")

    assert rows_of(lake) == [{"id": 3, "a": None}]
    assert commits_of(lake) == before + 1
    write(lake, [{"id": 4}], id="long")
    assert not write(lake, [{"id": 5}], replace=Replace.TABLE, app=("app", 0), id="long")
    assert ids(lake) == [3, 4]
    write(lake, [], replace=Replace.TABLE, id="long")
    assert rows_of(lake) == []


def test_overwrite_of_a_new_table_creates_it(lake: str):
    write(lake, [{"id": 1}], replace=Replace.TABLE, id="long")

    assert ids(lake) == [1]


def test_dynamic_overwrite_replaces_only_the_partitions_of_the_rows(lake: str):
    columns = {"id": "long", "day": "date"}
    days = [None, date(2026, 1, 1), date(2026, 1, 2)]
    write(lake, [{"id": i, "day": days[i % 3]} for i in range(6)], by="day", **columns)
    new = [{"id": 10, "day": None}, {"id": 11, "day": days[1]}, {"id": 12, "day": date(2027, 1, 1)}]

    write(lake, new, replace=Replace.PARTITIONS, **columns)

    assert rows_of(lake) == [{"id": 2, "day": days[2]}, {"id": 5, "day": days[2]}, *new]
    write(lake, [], replace=Replace.PARTITIONS, **columns)
    assert ids(lake) == [2, 5, 10, 11, 12]


def test_rows_appended_during_an_overwrite_are_kept(lake: str, monkeypatch: pytest.MonkeyPatch):
    write(lake, [{"id": 1}], id="long")
    meanwhile(monkeypatch, lambda: write(lake, [{"id": 2}], id="long"))

    write(lake, [{"id": 3}], replace=Replace.TABLE, id="long")

    assert ids(lake) == [2, 3]


def test_an_overwrite_that_lost_its_files_to_a_compaction_is_refused(
    lake: str, monkeypatch: pytest.MonkeyPatch
):
    for i in (1, 2):
        write(lake, [{"id": i}], id="long")
    meanwhile(monkeypatch, lambda: compact(lake))

    with pytest.raises(SluiceError, match="was not overwritten: a concurrent commit replaced"):
        write(lake, [{"id": 3}], replace=Replace.TABLE, id="long")

    assert ids(lake) == [1, 2]


def test_of_two_overwrites_at_once_the_second_is_refused(
    lake: str, monkeypatch: pytest.MonkeyPatch
):
    write(lake, [{"id": 1}], id="long")
    meanwhile(monkeypatch, lambda: write(lake, [{"id": 2}], replace=Replace.TABLE, id="long"))

    with pytest.raises(SluiceError, match="run the write again"):
        write(lake, [{"id": 3}], replace=Replace.TABLE, id="long")

    assert ids(lake) == [2]


@pytest.mark.slow
def test_spark_writes_by_name_and_overwrites(spark: SparkSession, lake: str, home: Path):
    if lake == ICEBERG:
        (home / ".pyiceberg.yaml").write_text(
            f"catalog:\n  lake:\n    uri: {os.environ['PYICEBERG_CATALOG__LAKE__URI']}\n"
            f"    warehouse: {os.environ['PYICEBERG_CATALOG__LAKE__WAREHOUSE']}\n"
        )

    def save(query: str, mode: str = "append", **options: str) -> None:
        name = "pgsluice-iceberg" if lake == ICEBERG else "pgsluice-delta"
        spark.sql(query).write.format(name).mode(mode).options(**options).save(lake)

    save("select 1L as id, 'x' as kind union select 2L, 'y'", partitionBy="kind")
    with pytest.raises(PySparkException, match="no column 'a'.*mergeSchema"):
        save("select 'a' as a, 3L as id")
    save("select 'a' as a, 'x' as kind, 3L as id", mergeSchema="true")
    save("select 4L as id, 'x' as kind", "overwrite", partitionOverwriteMode="Dynamic")

    assert rows_of(lake) == [{"id": 2, "kind": "y", "a": None}, {"id": 4, "kind": "x", "a": None}]
    save("select 5L as id", "overwrite", txnAppId="app", txnVersion="1")
    save("select 6L as id", "overwrite", txnAppId="app", txnVersion="1")
    assert ids(lake) == [5]


@pytest.mark.parametrize("number", range(6))
def test_writers_that_create_a_table_at_once_create_one_table(
    lake: str, number: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delta_table, "is_delta", lambda _: False)  # each looked before the others
    place, schema, start = f"{lake}{number}", struct(id="long"), threading.Barrier(4)

    def create(_: int) -> str:
        start.wait()
        table_at(place, schema).create()
        return open_archived(parse(place)).id

    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(create, range(4)))

    assert found == {open_archived(parse(place)).id}
