"""Run pipelines for the commands of `pgsluice pipeline run`."""

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
from pgsluice.cli.failures import hint
from pgsluice.cli.main import EXIT_DIFFERENCE, EXIT_ERROR
from pgsluice.cli.printing import echo, echo_json
from pgsluice.cli.signals import interrupt_on_termination, mute_py4j, stop_on_signals
from pgsluice.client.sentences import counted
from pgsluice.errors import SluiceError
from pgsluice.pipelines.config import Pipeline
from pgsluice.pipelines.runner import PipelineRunner
from pgsluice.pipelines.tasks import tasks_of
from pgsluice.spark.running import Progress
from pgsluice.spark.session import cancel_start, kill_java
from pgsluice.spark.shards import places_of
from pgsluice.worker.process.log_lines import JsonLines, TextLines, secrets_of


def run_kind(
    kind: str,
    *,
    once: bool,
    log_format: str,
    as_json: bool,
    dsn: str | None,
    master: str | None,
    **options: Any,
) -> None:
    """Run one pipeline from the options of its command."""
    given = {name: value for name, value in options.items() if value is not None}
    pipeline = Pipeline(kind, kind, given | {"dsn": dsn})
    # A session with a master starts before the pipeline, which then sets no memory.
    memory = {"spark.driver.memory": given["driver_memory"]} if "driver_memory" in given else {}
    run_pipelines(
        [pipeline],
        once=once,
        log_format=log_format,
        as_json=as_json,
        master=master,
        spark=memory if master is not None else None,
    )


def run_pipelines(
    pipelines: Sequence[Pipeline],
    *,
    once: bool,
    log_format: str,
    as_json: bool,
    dsn: str | None = None,
    master: str | None = None,
    spark: Mapping[str, str] | None = None,
) -> None:
    """Run pipelines once or until a signal, and print their progress.

    Args:
        pipelines: At least one.
        once: Run one after the other, each until it has caught up; else concurrently.
        log_format: `text` or `json`.
        as_json: Print JSON.
        dsn: Server of pipelines without a `dsn` of their own.
        master: Master of Spark, instead of that in `spark`.
        spark: Configuration of Spark.

    Raises:
        click.UsageError: A master is given, and no pipeline runs on Spark.
    """
    if master is not None:
        if not any(one.needs_spark for one in pipelines):
            kinds = ", ".join(sorted({one.kind for one in pipelines}))
            raise click.UsageError(f"--master is for pipelines on Spark; {kinds} runs without it")
        spark = {**(spark or {}), "spark.master": master}
    placed = [replace(one, options={"dsn": dsn, **one.options}) for one in pipelines]
    with _log_lines(log_format, placed):
        tasks = tasks_of(placed, once=once, spark=spark)
        if once:
            with interrupt_on_termination(), _java_killed_by_interrupt():
                done = PipelineRunner(threading.Event()).run_once(tasks)
            for pipeline in placed:
                _show(pipeline, done[pipeline.name], as_json)
            if any(progress.parked for progress in done.values()):
                sys.exit(EXIT_DIFFERENCE)  # the log has the reasons
            return
        with stop_on_signals() as stop:
            failed = PipelineRunner(stop, on_stop=cancel_start).run(tasks)
    if len(placed) == len(failed) == 1:
        raise failed[placed[0].name]
    if failed:
        sys.exit(EXIT_ERROR)  # the log has the reasons


@contextmanager
def _java_killed_by_interrupt() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        kill_java()
        raise


@contextmanager
def _log_lines(form: str, pipelines: Sequence[Pipeline]) -> Iterator[None]:
    """Write the logs of pgsluice to standard error; Spark configures its own."""
    targets = {
        connection.resolve(pipeline.options["dsn"], start_embedded=False).conninfo
        for pipeline in pipelines
    }
    for pipeline in pipelines:
        targets.update(places_of(pipeline.options.get("shards") or {}).values())
    secrets = [secret for target in targets for secret in secrets_of(target)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((JsonLines if form == "json" else TextLines)(secrets, None))
    handler.addFilter(_name_commands)
    mute_py4j()
    logger = logging.getLogger("pgsluice")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _name_commands(record: logging.LogRecord) -> bool:
    """Let the errors of a log line name commands in the place of methods."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            hint(value) if isinstance(value, SluiceError) else value for value in record.args
        )
    return True


def _show(pipeline: Pipeline, progress: Progress, as_json: bool) -> None:
    facts = asdict(progress)
    if as_json:
        echo_json({"pipeline": pipeline.name, "kind": pipeline.kind, **facts})
        return
    del facts["batch_duration_s"], facts["rows_left"]  # of the last batch only, and nothing is left
    summary = f"{counted(facts.pop('rows'), 'row')} in {counted(facts.pop('micro_batches'), 'lake commit')}"
    for name, value in facts.items():
        if isinstance(value, tuple):
            value = ", ".join(value)
        if value:
            summary += f", {name} {json.dumps(value) if isinstance(value, dict) else value}"
    echo(f"{pipeline.name}: {summary}")
