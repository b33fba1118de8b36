"""Tables with unsupported reader or writer features are refused with the feature's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.lake.jobs import compact, show, vacuum
from pgsluice.spark.lake_reading import read_table
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.schemas import struct
from pgsluice.spark.upsert import _merge_on_driver
from pgsluice.verify.lake import open_lake
from spark.delta_by_hand import column, column_mapped, write_delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID = struct(id="long")


def append(lake: Path) -> None:
    one = table_at(str(lake), ID)
    rows = pa.RecordBatch.from_pydict({"id": [7]}, one.arrow_schema)
    one.commit(one.write([rows], part=0), app_id="test", version=0)


READERS: dict[str, Callable[[Path], Any]] = {
    "compact": compact,
    "vacuum": lambda lake: vacuum(lake, retention_hours=1),
    "show": show,
    "verify": open_lake,
    "append": append,
}


@pytest.mark.parametrize("reader", READERS)
def test_legacy_column_mapping_is_refused(tmp_path: Path, reader: str):
    lake = column_mapped(tmp_path / "lake")

    with pytest.raises(ConfigurationError, match=f"lake table in {lake}.*columnMapping"):
        READERS[reader](lake)

    assert DeltaTable(str(lake)).version() == 0


def made(folder: Path, protocol: tuple[int, int, list[str]], **table: Any) -> Path:
    """Create a table of two files with the rows 1 and 2."""
    reader, writer, features = protocol
    versions: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    if writer == 7:
        versions["writerFeatures"] = features
    if reader == 3:
        versions["readerFeatures"] = features
    rows = [pa.table({"id": pa.array([i], pa.int64())}) for i in (1, 2)]
    return write_delta(folder, rows, **{"columns": [column("id")], "protocol": versions, **table})


def invariant() -> dict[str, Any]:
    return column("id", **{"delta.invariants": '{"expression":{"expression":"id < 5"}}'})


# Feature → protocol, arguments that use the feature, and commands that are still supported.
TABLES: dict[str, tuple[tuple[int, int, list[str]], dict[str, Any], set[str]]] = {
    "deletionVectors": ((3, 7, ["deletionVectors"]), {}, set()),
    "columnMapping": (
        (3, 7, ["columnMapping"]),
        {"configuration": {"delta.columnMapping.mode": "id"}},
        set(),
    ),
    "v2Checkpoint": ((3, 7, ["v2Checkpoint"]), {}, set()),
    "typeWidening": ((3, 7, ["typeWidening"]), {}, set()),
    "moonlight": ((3, 7, ["moonlight"]), {}, set()),
    "reader version 9": ((9, 9, []), {}, set()),
    "rowTracking": ((1, 7, ["rowTracking", "domainMetadata"]), {}, {"show", "verify"}),
    "inCommitTimestamp": ((1, 7, ["inCommitTimestamp"]), {}, {"show", "verify"}),
    "writer version 8": ((1, 8, []), {}, {"show", "verify"}),
    "writer version 6": ((1, 6, []), {}, {"show", "verify", "vacuum"}),
    "delta.setTransactionRetentionDuration": (
        (1, 2, []),
        {"configuration": {"delta.setTransactionRetentionDuration": "interval 1 days"}},
        {"show", "verify"},
    ),
    "checkConstraints": (
        (1, 3, []),
        {"configuration": {"delta.constraints.small": "id < 5"}},
        {"show", "verify", "compact", "vacuum"},
    ),
    "invariants": (
        (1, 2, []),
        {"columns": [invariant()]},
        {"show", "verify", "compact", "vacuum"},
    ),
    "generatedColumns": (
        (1, 4, []),
        {"columns": [column("id", **{"delta.generationExpression": "1"})]},
        {"show", "verify", "compact", "vacuum"},
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("feature", TABLES)
def test_a_feature_that_is_not_implemented_is_refused_by_name(
    tmp_path: Path, feature: str, reader: str
):
    protocol, table, possible = TABLES[feature]
    lake = made(tmp_path / "lake", protocol, **table)

    if reader in possible:
        READERS[reader](lake)
        assert open_dataset(lake).to_table()["id"].to_pylist() == [1, 2]
    else:
        with pytest.raises(ConfigurationError, match=rf"lake table in {lake}.*{feature}"):
            READERS[reader](lake)
        assert [path.name for path in (lake / "_delta_log").iterdir()] == [f"{0:020d}.json"]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("protocol", "configuration"),
    [
        ((1, 2, []), {}),
        ((2, 5, []), {}),
        ((2, 5, []), {"delta.columnMapping.mode": "none"}),
        ((1, 4, []), {"delta.enableChangeDataFeed": "true"}),
        ((1, 2, []), {"delta.appendOnly": "true", "delta.autoOptimize.optimizeWrite": "true"}),
        ((3, 7, ["timestampNtz"]), {"delta.enableDeletionVectors": "false"}),
        ((1, 7, ["appendOnly", "invariants", "changeDataFeed"]), {"owner": "me"}),
    ],
)
def test_a_feature_that_is_listed_and_not_used_is_no_obstacle(
    tmp_path: Path, protocol: tuple[int, int, list[str]], configuration: dict[str, str], reader: str
):
    lake = made(tmp_path / "lake", protocol, configuration=configuration)

    READERS[reader](lake)

    rows = open_dataset(lake).to_table()["id"].to_pylist()
    assert sorted(rows) == ([1, 2, 7] if reader == "append" else [1, 2])


def test_a_file_in_another_place_is_refused(tmp_path: Path):
    lake = made(tmp_path / "lake", (1, 2, []), add={"path": "file:///elsewhere/a.parquet"})

    with pytest.raises(ConfigurationError, match="has files outside its folder"):
        compact(lake)


def test_a_compaction_refuses_files_with_columns_that_the_table_does_not_have(tmp_path: Path):
    lake = made(tmp_path / "lake", (1, 2, []), columns=[column("ID")])

    with pytest.raises(SluiceError, match="has columns that its table lacks \\(id\\)"):
        compact(lake)


def test_rows_of_files_without_statistics_are_counted(tmp_path: Path):
    assert show(made(tmp_path / "lake", (1, 2, []), with_stats=False)).rows == 2


def merge_into(lake: Path) -> bool:
    rows = pa.table({"id": pa.array([2, 9], pa.int64())})
    return _merge_on_driver(lake, rows, ["id"], "id", "test", 0)


def test_a_merge_into_a_table_with_a_change_feed_writes_the_feed(tmp_path: Path):
    lake = made(tmp_path / "lake", (1, 4, []), configuration={"delta.enableChangeDataFeed": "true"})

    assert merge_into(lake)

    feed = pa.table(DeltaTable(str(lake)).load_cdf(starting_version=1).read_all())
    assert feed.select(["id", "_change_type"]).to_pylist() == [{"id": 9, "_change_type": "insert"}]


def test_a_merge_into_an_append_only_table_is_refused(tmp_path: Path):
    lake = made(tmp_path / "lake", (1, 2, []), configuration={"delta.appendOnly": "true"})

    with pytest.raises(ConfigurationError, match="uses appendOnly: pgsluice cannot change its"):
        merge_into(lake)


def test_spark_refuses_what_its_files_do_not_show(tmp_path: Path, spark: SparkSession):
    lake = column_mapped(tmp_path / "lake")

    with pytest.raises(ConfigurationError, match="uses columnMapping: pgsluice cannot read it"):
        read_table(spark, lake)
