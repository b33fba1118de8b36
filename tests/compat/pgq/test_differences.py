"""Intended differences from PgQ: sql/pgq/README.md lists exactly those that the tests allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.pgq.cases import LINES

TESTS = Path(__file__).parents[2]
README = TESTS.parent / "src" / "pgsluice" / "sql" / "pgq" / "README.md"
CASES = "compat/pgq/test_conformance.py"
TRIGGERS = "compat/pgq/test_triggers.py"
SURFACE = "compat/pgq/test_surface.py"

# Beginning of a line of the list → the tests that show the difference.
SHOWN = {
    "one session at a time ticks a log": ["concurrency/test_tickers.py"],
    "the ticker refuses REPEATABLE READ": ["db/pgq/test_ticker.py"],
    "one call of `ticker()` takes a page of the logs": ["db/sluice/test__lock_slots.py"],
    "errors have codes": [CASES],
    "an unknown log: `No such queue`": ["db/pgq/test_insert_event.py"],
    "a null event time means now in `insert_event_raw`": ["db/pgq/test_insert_event_raw.py"],
    "a null log name: `Queue name must not be NULL`": ["db/pgq/test_insert_event.py"],
    "`insert_event` does not call `insert_event_raw`": ["db/pgq/test_insert_event.py"],
    "`queue_per_tx_limit` counts what savepoints": ["db/pgq/test__admit_events.py"],
    "writers may insert the fields": ["db/pgq/test_current_event_table.py"],
    "`tune_storage` tunes tick tables too": ["db/pgq/test_tune_storage.py"],
    "`version()` is": ["db/pgq/test_version.py"],
    "an event is retried once for each batch": ["db/pgq/test_event_retry.py"],
    "`maint_retry_events` also moves events": ["db/sluice/test_insert_event.py"],
    "a log that cannot take its due events": ["db/pgq/test__postpone_retries.py"],
    "one session at a time moves events": ["db/pgq/test_maint_retry_events.py"],
    "an event queued in the mover's own transaction": ["db/pgq/test_maint_retry_events.py"],
    "a segment is emptied when no position needs": ["concurrency/test_rotation.py"],
    "with more than six segments kept": ["db/sluice/test_rotate.py"],
    "step 1, step 2 in one transaction": ["db/pgq/test_maint_rotate_tables_step1.py"],
    "rotation refuses REPEATABLE READ": ["db/pgq/test_maint_rotate_tables_step1.py"],
    "each tick is notified on the log's channel": ["db/sluice/test_listen_to_logs.py"],
    "a snapshot in which a transaction is in progress": ["db/pgq/test__require_newer_snapshot.py"],
    "a log that was restored from a dump": ["db/sluice/test_after_restore_states.py"],
    "`maint_tables_to_vacuum` lists other tables": [CASES],
    "after its ticks a consumer may be given up": ["db/sluice/test_set_log_options.py"],
    "a session that opens, finishes or moves waits": ["concurrency/test_positions.py"],
    "`subscription` is a view of the newest moves": ["db/pgq/test__update_subscription.py"],
    "`PQ006` from every call": ["db/pgq/test__refuse_lost.py"],
    "`next_batch` without an open batch": ["db/pgq/test_next_batch_custom.py"],
    "`register_consumer_at` does not move": ["db/pgq/test_register_consumer_at.py"],
    "`min_lag` is counted to the call": ["db/pgq/test_next_batch_custom.py"],
    "a trigger knows the key by its columns": [TRIGGERS],
    "a column has changed when its text differs": [TRIGGERS],
    "a key that changes is always refused": [TRIGGERS],
    "an expression of a trigger is SQL over the row": [TRIGGERS],
    "an expression that gives no row is null": [TRIGGERS],
    "a trigger BEFORE UPDATE has generated": [TRIGGERS],
    "ids of transactions are `xid8`": [SURFACE],
    "roles are ": ["db/pgq/test_privileges.py"],
    "every function pins `search_path`": ["db/pgq/test_privileges.py"],
}


def lines() -> list[str]:
    """Return the first cell of every line of the table of differences."""
    section = README.read_text().split("## Differences from PgQ 3.5")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [line.split(" | ")[0].removeprefix("| ") for line in table[2:]]


def starts() -> dict[str, list[str]]:
    return SHOWN | {line: [CASES] for line in LINES}


def test_every_difference_in_the_readme_is_shown_by_a_test():
    unshown = [line for line in lines() if sum(line.startswith(start) for start in starts()) != 1]

    assert len(lines()) >= 10
    assert not unshown, "\n".join(unshown)


def test_every_shown_difference_is_in_the_readme():
    missing = [start for start in starts() if not any(line.startswith(start) for line in lines())]

    assert not missing, "\n".join(missing)


def test_a_line_is_shown_by_the_conformance_table_or_by_another_test_and_not_by_both():
    assert SHOWN.keys() & LINES == set()


@pytest.mark.parametrize("path", sorted({path for paths in SHOWN.values() for path in paths}))
def test_the_tests_named_here_exist(path):
    assert "def test_" in (TESTS / path).read_text()
