"""Delta tables as other tools write them, with a handwritten `_delta_log`."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def column(name: str, kind: str = "long", **metadata: object) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def write_delta(
    folder: Path,
    tables: Sequence[pa.Table],
    *,
    columns: Sequence[Mapping[str, Any]],
    protocol: Mapping[str, Any],
    configuration: Mapping[str, str] | None = None,
    add: Mapping[str, Any] | None = None,
    with_stats: bool = True,
) -> Path:
    """Create a Delta table with one file for each of the given Arrow tables.

    Args:
        add: Further fields of each add action, besides path, size and statistics.
    """
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    actions: list[dict[str, Any]] = [
        {"protocol": protocol},
        {
            "metaData": {
                "id": str(uuid.uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": columns}),
                "partitionColumns": [],
                "configuration": configuration or {},
                "createdTime": 1,
            }
        },
    ]
    for number, rows in enumerate(tables):
        name = f"part-{number:05d}-{uuid.uuid4()}.snappy.parquet"
        pq.write_table(rows, folder / name)
        stats = {"stats": json.dumps({"numRecords": rows.num_rows})} if with_stats else {}
        actions.append(
            {
                "add": {
                    "path": name,
                    "partitionValues": {},
                    "size": (folder / name).stat().st_size,
                    "modificationTime": 1,
                    "dataChange": True,
                    **stats,
                    **(add or {}),
                }
            }
        )
    actions.append({"commitInfo": {"timestamp": 1, "operation": "WRITE"}})
    (log / f"{0:020d}.json").write_text("".join(json.dumps(one) + "\n" for one in actions))
    return folder


def column_mapped(folder: Path) -> Path:
    """Create a table with legacy column mapping: protocol 2,5, other column names in its files."""
    renamed = "col-5f1ee0b1"
    rows = [pa.table({renamed: pa.array([i], pa.int64())}) for i in (1, 2)]
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": renamed}
    return write_delta(
        folder,
        rows,
        columns=[column("id", **mapped)],
        protocol={"minReaderVersion": 2, "minWriterVersion": 5},
        configuration={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"},
    )
