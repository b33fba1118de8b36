"""A cluster of a master and two workers drains a sharded log, at the size of a test; the workload is `spark_size`."""

from __future__ import annotations

import psycopg
import pytest
from bench.place import Place
from bench.workloads import spark_size

from support.servers import Servers

EVENTS = 200_000
SIZES = {"special": EVENTS, "round": EVENTS, "shards": 4, "rows": 20_000}


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_killed_executor_neither_loses_nor_duplicates_events_of_four_shards(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, home: object
):
    for name, size in SIZES.items():
        monkeypatch.setitem(spark_size.OPTIONS, f"spark_size_{name}", size)
    monkeypatch.setattr(spark_size, "DETAILS", {})
    monkeypatch.setattr(spark_size, "NOTES", [])
    server = servers.get("18", "size")
    (question,) = [each for each in spark_size.QUESTIONS if each.is_killed]

    with psycopg.connect(server.url(), autocommit=True) as connection:
        # It raises an error if the lake and the log differ in the number or the sums of events.
        rate = spark_size.measure(Place("pgsluice", connection, server), question)

    found = spark_size.DETAILS[question.name]
    assert rate > 0
    assert spark_size.DETAILS["killed"]["rows_in_lake"] == EVENTS // 2
    assert {shard["count"] for shard in found["exact"].values()} == {EVENTS // 4}
    assert found["rounds"][0]["micro_batches"] >= 10
