"""Create a table in a catalogue of Iceberg."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa

with tempfile.TemporaryDirectory() as folder:
    os.environ["PYICEBERG_HOME"] = folder
    os.environ["PYICEBERG_CATALOG__LAKE__URI"] = f"sqlite:///{folder}/catalog.db"
    os.environ["PYICEBERG_CATALOG__LAKE__WAREHOUSE"] = Path(folder, "warehouse").as_uri()

    from pgsluice.lake.iceberg.catalog import opened_catalog

    with opened_catalog("lake") as catalog:
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", pa.schema([("n", pa.int64())]))
        table.append(pa.table({"n": [1, 2]}))
        assert table.scan().to_arrow().num_rows == 2
