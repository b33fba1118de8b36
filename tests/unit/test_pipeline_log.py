"""The log lines and errors of `pgsluice pipeline run`."""

from __future__ import annotations

import logging

import pytest

from pgsluice.cli.pipeline_run import _log_lines
from pgsluice.errors import ConfigurationError, LogNotFoundError, QueueNotFoundError
from pgsluice.pipelines.events import log_options
from pgsluice.pipelines.options import StreamOptions


@pytest.mark.parametrize("form", ["text", "json"])
def test_errors_name_the_commands_in_the_place_of_the_clients_methods(
    form: str, capsys: pytest.CaptureFixture[str]
):
    logger = logging.getLogger("pgsluice.pipelines.runner")
    missing = QueueNotFoundError(names=("x",))
    no_log = LogNotFoundError(names=("y",))
    with _log_lines(form, []):
        logger.error("failed permanently: %s", missing, extra={"pipeline": "a"})
        logger.error("failed permanently: %s", no_log, extra={"pipeline": "a"})

    lines = capsys.readouterr().err.splitlines()
    assert "create it with: pgsluice queue create x" in lines[0]
    assert "create it with: pgsluice log create y" in lines[1]


def test_starting_at_a_snapshot_is_refused_with_the_name_of_the_option():
    start = '{"snapshot": "1005:1008:1005"}'
    with pytest.raises(ConfigurationError) as caught:
        log_options("log", "consumer", StreamOptions(starting=start))
    assert str(caught.value) == (
        f'starting is {start!r}; use earliest, latest, committed or {{"tick": 12}}'
    )
    at_tick = StreamOptions(starting='{"tick": 3}')
    assert log_options("log", "consumer", at_tick)["startingOffsets"] == '{"tick": 3}'
