"""Each option of queues and logs is in all places that CONTRIBUTING.md names."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from pgsluice.client import LogOptions, LogSettings, QueueOptions, QueueSettings

PACKAGE = Path(__file__).parents[2] / "src" / "pgsluice"
SQL = PACKAGE / "sql" / "sluice"
SETTINGS = SQL / "functions" / "settings"
# Two columns in place of a boolean; claims, not options, use the ids.
NOT_COLUMNS = {"paused"}
NOT_OPTIONS = {"queue_name", "log_name", "paused_at", "paused_by", "limits_by", "deduplication_by"}


def columns(name: str, kind: str, file: Path) -> list[str]:
    """Return the columns of a table or type."""
    found = re.search(
        rf"create {kind} {name} (?:as )?\((.*?)^\);", file.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return re.findall(r"^    (\w+) ", found[1], re.MULTILINE)


OF_QUEUES = columns("sluice.queue_settings", "table", SQL / "tables" / "queue_settings.sql")
OF_LOGS = columns("sluice.log_settings", "type", SQL / "tables" / "log_settings.sql")


def test_the_records_have_the_columns():
    internal = {"queue_table", "limits_id", "deduplication_id"}

    assert [field.name for field in fields(QueueSettings)] == [
        name for name in OF_QUEUES if name not in internal
    ]
    assert [field.name for field in fields(LogSettings)] == OF_LOGS
    assert QueueOptions.__annotations__.keys() - NOT_COLUMNS == (
        set(OF_QUEUES) - internal - NOT_OPTIONS
    )
    assert LogOptions.__annotations__.keys() == set(OF_LOGS) - NOT_OPTIONS


@pytest.mark.parametrize("option", QueueOptions.__annotations__)
def test_an_option_of_queues_is_known_stored_and_documented(option):
    assert f"'{option}'" in (SETTINGS / "_queue_settings.sql").read_text()
    if option not in NOT_COLUMNS:
        assert f" {option} = v_new.{option}" in (SETTINGS / "set_queue_options.sql").read_text()
    assert f"        {option}: " in (PACKAGE / "client" / "settings_records.py").read_text()
    if option != "rate_interval":  # written with the rate: 5/10m
        help_text = (PACKAGE / "cli" / "queue_settings.py").read_text()
        assert re.search(rf"^    {option} +\S", help_text, re.MULTILINE)


@pytest.mark.parametrize("option", LogOptions.__annotations__)
def test_an_option_of_logs_is_known_and_documented(option):
    assert f"'{option}'" in (SETTINGS / "set_log_options.sql").read_text()
    assert option in (SETTINGS / "log_options.sql").read_text()
    assert f"        {option}: " in (PACKAGE / "client" / "settings_records.py").read_text()
    assert re.search(rf"^    {option} +\S", (PACKAGE / "cli" / "log.py").read_text(), re.MULTILINE)


def test_the_limits_that_need_the_lock_of_the_queue_are_all_limits():
    names = re.compile(r"array\[\s*('fleet_concurrency'[^\]]*)\]")
    known, locked = (
        names.search((SETTINGS / f"{file}.sql").read_text())
        for file in ("_queue_settings", "set_queue_options")
    )

    assert known is not None
    assert locked is not None
    assert known[1].split() == locked[1].split()
