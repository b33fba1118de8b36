"""What the demo computes from the lake alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from pgsluice.demo.lake import compute_balances

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_balances_follow_the_order_of_changes_through_deletes_and_truncates(
    spark: SparkSession, tmp_path: Path
):
    def change(ev_id: int, ev_type: str, before: Any, after: Any) -> dict[str, Any]:
        rows = [
            row and {"aid": row[0], "abalance": row[1], "filler": " "} for row in (before, after)
        ]
        data = {"op": ev_type, "before": rows[0], "after": rows[1]}
        return {"ev_id": ev_id, "ev_type": ev_type, "ev_data": json.dumps(data)}

    changes = [
        change(1, "c", None, (9, 900)),
        change(2, "t", None, None),
        change(3, "c", None, (1, 0)),
        change(4, "c", None, (2, 0)),
        change(5, "c", None, (3, 0)),
        change(6, "u", (1, 0), (1, 10)),
        change(7, "d", (2, 0), None),
        change(8, "u", (1, 10), (1, -5)),
        change(9, "d", (3, 0), None),
        change(10, "c", None, (3, 33)),
    ]
    # As they may lie in the lake: in several files, in no order.
    for part in (changes[5:], changes[:5]):
        write_deltalake(tmp_path / "lake", pa.Table.from_pylist(part[::-1]), mode="append")

    balances = compute_balances(spark, tmp_path / "lake")

    assert balances.to_pylist() == [{"aid": 1, "abalance": -5}, {"aid": 3, "abalance": 33}]
