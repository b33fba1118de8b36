"""Lake tables written without Spark: the same columns as with Spark, and no import of pyspark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Schema
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError
from pgsluice.lake.columns import nullable, plain
from pgsluice.spark import schemas
from pgsluice.spark.lake_tables import table_at

TYPES = (
    *("string", "long", "integer", "short", "byte", "float", "double", "decimal(38,18)", "boolean"),
    *("binary", "date", "timestamp", "timestamp_ntz"),
    {"type": "array", "elementType": "timestamp", "containsNull": True},
    {"type": "array", "elementType": "string", "containsNull": False},
    {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    {
        "type": "struct",
        "fields": [
            {"name": "a", "type": "long", "nullable": False, "metadata": {}},
            {"name": "b", "type": "binary", "nullable": True, "metadata": {"comment": "text"}},
        ],
    },
)
WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None
from pathlib import Path
import pyarrow as pa
from deltalake import Schema
from pgsluice.lake.delta.table import DeltaLakeTable
from pgsluice.lake.jobs import compact, show
schema = pa.schema([("id", pa.int64())])
folder = Path(sys.argv[1])
table = DeltaLakeTable.in_folder(folder, schema, Schema.from_arrow(schema).to_json())
for number in range(2):
    rows = pa.RecordBatch.from_pydict({"id": [number]}, schema)
    assert table.commit(table.write([rows], part=0), app_id="app", version=number)
compact(folder)
print(show(folder).rows, show(folder).files)
"""


def spark_schema(kind: object) -> StructType:
    column = {"name": "c", "type": kind, "nullable": True, "metadata": {"comment": "text"}}
    return StructType.fromJson({"type": "struct", "fields": [column]})


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_columns_of_a_delta_table_are_those_that_spark_has(kind: object):
    schema = spark_schema(kind)
    of_delta = Schema.from_json(json.dumps(schema.jsonValue())).to_arrow()

    assert plain(pa.schema(of_delta)) == schemas.arrow_schema(schema)


# Iceberg has no 8-bit and 16-bit integers.
@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in ("short", "byte")], ids=str)
def test_columns_of_an_iceberg_table_are_those_that_spark_has(kind: object):
    pytest.importorskip("pyiceberg", reason="needs pgsluice[iceberg]")
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.schema import assign_fresh_schema_ids

    written = schemas.arrow_schema(spark_schema(kind))
    of_iceberg = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(written)).as_arrow()

    read = schemas.arrow_schema(schemas.nullable(from_arrow_schema(of_iceberg)))
    assert nullable(plain(of_iceberg)) == read == plain(written)


def test_a_variant_is_refused(tmp_path: Path):
    schema = schemas.struct(id="long", payload="variant")

    for address in (str(tmp_path / "lake"), "iceberg:lake/a.b"):
        with pytest.raises(ConfigurationError, match=r"'payload' has the type variant.*to_json"):
            table_at(address, schema)


def test_a_delta_table_is_written_and_compacted_without_pyspark(tmp_path: Path):
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_SPARK, tmp_path / "lake"],
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert (result.stdout, result.stderr) == ("2 1\n", "")


@pytest.mark.parametrize(
    "kind",
    [types.DayTimeIntervalType(), types.YearMonthIntervalType(), types.CalendarIntervalType()],
)
def test_interval_is_refused_by_name_before_a_table_is_created(
    tmp_path: Path, kind: types.DataType
):
    schema = types.StructType([types.StructField("period", kind)])

    with pytest.raises(
        ConfigurationError, match="column 'period' has the type .*; cast it to string"
    ):
        table_at(str(tmp_path / "lake"), schema)

    assert not (tmp_path / "lake").exists()
