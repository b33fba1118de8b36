"""Run one or several pipelines, as the commands of `pgsluice pipeline run` ask for."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import click

from pgsluice import connection
from pgsluice.cli.main import EXIT_ERROR
from pgsluice.cli.signals import interrupt_on_termination, stop_on_signals
from pgsluice.pipelines.config import Pipeline
from pgsluice.pipelines.runner import Runner
from pgsluice.pipelines.tasks import tasks_of
from pgsluice.spark.running import Progress
from pgsluice.worker.process.log_lines import JsonLines, TextLines, secrets_of


def carry_kind(
    kind: str, *, once: bool, log_format: str, as_json: bool, dsn: str | None, **options: Any
) -> None:
    """Run one pipeline that the options of its command describe."""
    given = {name: value for name, value in options.items() if value is not None}
    pipeline = Pipeline(kind, kind, given | {"dsn": dsn})
    carry([pipeline], once=once, log_format=log_format, as_json=as_json)


def carry(
    pipelines: Sequence[Pipeline],
    *,
    once: bool,
    log_format: str,
    as_json: bool,
    dsn: str | None = None,
    spark: Mapping[str, str] | None = None,
) -> None:
    """Run pipelines, once or until a signal comes, and say how far they came.

    Args:
        pipelines: At least one.
        once: One after the other, each to its end; else all at once.
        log_format: `text` or `json`.
        as_json: Whether the answer is for machines.
        dsn: Where those connect that do not say so themselves.
        spark: Settings of Spark's.
    """
    placed = [replace(one, options={"dsn": dsn, **one.options}) for one in pipelines]
    with _log_lines(log_format, placed):
        tasks = tasks_of(placed, once=once, spark=spark)
        if once:
            with interrupt_on_termination():
                done = Runner(threading.Event()).run_once(tasks)
            for pipeline in placed:
                _show(pipeline, done[pipeline.name], as_json)
            return
        with stop_on_signals() as stop:
            failed = Runner(stop).run(tasks)
    if len(placed) == len(failed) == 1:
        raise failed[placed[0].name]
    if failed:
        sys.exit(EXIT_ERROR)  # what failed and why is in the log


@contextmanager
def _log_lines(form: str, pipelines: Sequence[Pipeline]) -> Iterator[None]:
    """Let our own loggers write to standard error; what Spark says goes where Spark sends it."""
    targets = {
        connection.resolve(pipeline.options["dsn"], start_embedded=False).conninfo
        for pipeline in pipelines
    }
    for pipeline in pipelines:
        targets.update(pipeline.options.get("shards", {}).values())
    secrets = [secret for target in targets for secret in secrets_of(target)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((JsonLines if form == "json" else TextLines)(secrets, None))
    logger = logging.getLogger("pgsluice")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _show(pipeline: Pipeline, progress: Progress, as_json: bool) -> None:
    facts = asdict(progress)
    if as_json:
        click.echo(json.dumps({"pipeline": pipeline.name, "kind": pipeline.kind, **facts}))
        return
    del facts["batch_duration_s"]  # of the last one, for those who watch
    said = f"{facts.pop('rows')} rows in {facts.pop('micro_batches')} commits"
    for name, value in facts.items():
        if value:
            said += f", {name} {json.dumps(value) if isinstance(value, dict) else value}"
    click.echo(f"{pipeline.name}: {said}")
