"""The example of declarative pipelines, run twice as documented."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow.dataset as ds
import pytest

from support.servers import Database

MEDALLION = Path(__file__).parents[2] / "examples" / "medallion"
NEEDED = ("grpc", "grpc_status", "google", "pandas", "yaml", "zstandard")
DEADLINE_S = 900

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * DEADLINE_S)]


@pytest.fixture
def run(database_18: Database, tmp_path: Path):
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        pytest.skip(f"pip install --group long: there is no {', '.join(missing)}")
    shutil.copytree(MEDALLION, tmp_path / "medallion")

    def run() -> None:
        done = subprocess.run(
            [sys.executable, "run.py"],
            cwd=tmp_path / "medallion",
            env=os.environ | {"PGSLUICE_DSN": database_18.url, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]

    return run


def test_a_second_run_brings_the_tables_up_to_date(run, log_of_orders, tmp_path: Path):
    def rows(table: str) -> list[tuple]:
        found = ds.dataset(tmp_path / "medallion" / "spark-warehouse" / table, format="parquet")
        return sorted(tuple(row.values()) for row in found.to_table().to_pylist())

    log_of_orders("ordered", '{"order": 1, "customer": "anna", "amount": 10.50}')
    log_of_orders("paid", '{"order": 2, "customer": "bert", "amount": 7}', "no JSON")
    run()
    first = rows("gold")
    log_of_orders("paid", '{"order": 1, "customer": "anna", "amount": 12.25}')
    log_of_orders("paid", '{"order": 3, "customer": "bert", "amount": 1}')
    run()

    assert first == [("bert", 1, Decimal(7))]
    assert rows("gold") == [("anna", 1, Decimal("12.25")), ("bert", 2, Decimal(8))]
    assert [row[:4] for row in rows("silver")] == [
        (1, "anna", Decimal("12.25"), "paid"),
        (2, "bert", Decimal(7), "paid"),
        (3, "bert", Decimal(1), "paid"),
    ]


@pytest.fixture
def log_of_orders(db: psycopg.Connection):
    """Append events of one type to the log, and tick it."""
    db.execute("select pgq.create_queue('orders')")

    def append(kind: str, *bodies: str) -> None:
        for body in bodies:
            db.execute("select pgq.insert_event('orders', %s, %s)", (kind, body))
        db.execute("select pgq.force_tick('orders')")
        db.execute("select pgq.ticker('orders')")

    return append
