"""The lake as a stranger reads it: Delta's log for the names of the files, Arrow for the rows, no Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable


def lake_table(lake: Path) -> pa.Table:
    files = [uri.removeprefix("file://") for uri in DeltaTable(str(lake)).file_uris()]
    return pa.concat_tables(pq.read_table(file, partitioning=None) for file in files)


def lake_column(lake: Path, name: str) -> list:
    return sorted(lake_table(lake).column(name).to_pylist()) if has_rows(lake) else []


def has_rows(lake: Path) -> bool:
    return bool(DeltaTable(str(lake)).file_uris())
