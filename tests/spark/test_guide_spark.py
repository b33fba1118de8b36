"""docs/guides/spark.md: its programs run in order and print what it shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
import pytest

from conftest import Database
from pgsluice.client import WorkQueue
from support.processes import GUIDES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def test_the_guide_does_what_it_shows(
    spark: SparkSession,
    db: psycopg.Connection,
    database_18: Database,
    capsys: pytest.CaptureFixture[str],
):
    queue = WorkQueue(db)
    queue.create("orders")
    ids = queue.send_batch(
        "orders", [{"item": item} for item in ("tea", "honey", "rice", "salt", "oil")]
    )
    queue.archive_batch("orders", ids[:2])
    queue.read("orders", vt=30, qty=1)
    db.execute("select pgq.create_queue('payments')")
    db.execute("select pgq.insert_event('payments', 'paid', '{\"order\": 1}')")
    text = (GUIDES / "spark.md").read_text(encoding="utf-8")
    text = text.replace("postgresql://app@db.example/shop", database_18.url)
    names: dict[str, object] = {}

    blocks = BLOCK.findall(text)
    for (kind, block), (next_kind, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind == "python":
            exec(block, names)
            printed = capsys.readouterr().out
            assert printed.rstrip() == (shown.rstrip() if next_kind == "text" else ""), block
