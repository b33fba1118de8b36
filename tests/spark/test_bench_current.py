"""The workload `spark_current` of the benchmark uses internals of the pipeline, so it is run at a small size."""

from __future__ import annotations

from bench.workloads import spark_current


def test_workload_applies_its_changes_to_a_table_on_the_driver(monkeypatch, tmp_path):
    monkeypatch.setitem(spark_current.OPTIONS, "spark_current_driver", 30_000)
    monkeypatch.setattr(spark_current.tempfile, "tempdir", str(tmp_path))
    question = next(each for each in spark_current.QUESTIONS if not each.by_buckets)

    # It raises an error if another number of rows than CHANGES was changed.
    assert spark_current.measure(None, question) > 0
