"""Intended differences from PGMQ: sql/pgmq/README.md lists exactly those that the tests allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat import (
    test_behaviour,
    test_edges,
    test_groups,
    test_notify,
    test_topics_and_kinds,
)

TESTS = Path(__file__).parents[1]
README = TESTS.parent / "src" / "pgsluice" / "sql" / "pgmq" / "README.md"
MODULES = (test_behaviour, test_edges, test_groups, test_notify, test_topics_and_kinds)
REASONS = {reason for module in MODULES for reason in module.DIFFERENCES.values()}
(UNLOGGED,) = set(test_topics_and_kinds.DIFFERENCES.values())

# Beginning of a line of the list → the reasons that calls give for it, or other tests that show
# it.
SHOWN = {
    "the sequence of an unlogged queue is logged": [UNLOGGED],
    "`read_with_poll` and its variants sleep at most": ["db/pgmq/test_read_with_poll.py"],
    "`test_routing` also sorts by queue": ["db/pgmq/test_test_routing.py"],
    "a group's run ends before its first message": [test_groups.IN_FLIGHT],
    "a message that commits late waits": [test_groups.LATE],
    "the group readers take no advisory locks": ["concurrency/test_groups.py"],
    "`read_grouped` with a negative quantity": [test_groups.NEGATIVE],
    "`create_fifo_index` makes two B-trees": ["db/pgmq/test_create_fifo_index.py"],
    "`create_fifo_indexes_all` skips a queue": [test_groups.BROKEN],
    "of more than 1,000 messages that became due": ["db/pgmq/test__create_reader.py"],
    "the index `q_…_vt_idx` is on the deferred": ["compat/test_surface.py"],
    "rows always in `msg_id` order": ["property/test_work_queue_machine.py"],
    "a name that folds to the table of another": [test_behaviour.SAME_TABLE],
    "`drop_queue` by another spelling": [test_behaviour.OTHER_CASE],
    "the length of a name counts in bytes": [test_behaviour.BYTES],
    "an empty name or one with control characters": [
        test_behaviour.EMPTY,
        test_behaviour.CONTROL,
    ],
    "`validate_queue_name` refuses every name": [test_edges.FORETELLS],
    "`read_ct` stays at 2147483647": [test_behaviour.SATURATES],
    "`purge_queue` counts under the lock": ["db/pgmq/test_purge_queue.py"],
    "`enable_notify_insert` puts a statement trigger": [
        test_notify.STATEMENT,
        test_notify.NOTHING,
    ],
    "when a queue last notified is in a sequence": [test_notify.MOMENT, test_notify.UNKNOWN],
    "`notify_insert_throttle` is logged": ["compat/test_notify.py"],
    "both spellings of the channel": [test_notify.CASE, "compat/test_official_listener.py"],
    "nothing is notified while the server's queue": ["db/pgmq/test_notify_queue_listeners.py"],
    "`enable_notify_insert` refuses a queue": [test_notify.REFUSED],
    "`enable_notify_insert` again sets the interval": ["db/pgmq/test_enable_notify_insert.py"],
    "`metrics_all` skips a queue without tables": [test_behaviour.BROKEN],
    "`pg_monitor` has the rights of `sluice_monitor`": ["compat/test_surface.py"],
    "`metrics` counts up to 5,000": ["db/pgmq/test__count.py"],
    "a table named like a queue's is read only after": ["db/pgmq/test__reader.py"],
    "a message that commits late may wait up to": ["db/pgmq/test__create_reader.py"],
    "`create_partitioned` needs no extension": ["db/sluice/test_maintain.py"],
    "pg_partman is used if `sluice.partition_manager`": ["db/pgmq/test__partman_create.py"],
    "`create_partitioned` on a partitioned queue": ["db/pgmq/test_create_partitioned.py"],
    "an interval that is 0, negative or of mixed": [
        "db/sluice/test__require_partition_settings.py",
    ],
    "a partition is named `q_x_P<start>`": ["db/pgmq/test_create_partitioned.py"],
    "a partitioned queue has a primary key": ["db/pgmq/test_create_partitioned.py"],
    "retention by `msg_id` counts from the last id": ["db/sluice/test_maintain.py"],
    "an empty partition of the queue that is over": ["db/sluice/test_maintain.py"],
    "`convert_archive_partitioned` keeps what": ["db/pgmq/test_convert_archive_partitioned.py"],
    "`leading_partition` is how many partitions": ["db/pgmq/test_convert_archive_partitioned.py"],
    "an archive with policies, triggers or indexes": [
        "db/pgmq/test_convert_archive_partitioned.py",
    ],
    "`default_partition_length` counts, up to": [
        test_behaviour.PARTITION,
        "db/pgmq/test_metrics_of_partitions.py",
    ],
    "`drop_queue` drops the template tables": ["db/pgmq/test__partman_create.py"],
    "`list_queues` and `metrics_all` by name": [
        "db/pgmq/test_list_queues.py",
        "db/pgmq/test_metrics_all.py",
    ],
    "every error has a hint": ["tidy/test_functions_are_complete.py"],
}


def lines():
    """Return the first cell of every line of the table of differences."""
    section = README.read_text().split("## Differences from PGMQ 1.13.0")[1]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [line.split(" | ")[0].removeprefix("| ") for line in table[2:]]


def test_every_difference_in_the_readme_is_shown_by_a_test():
    unshown = [line for line in lines() if sum(line.startswith(start) for start in SHOWN) != 1]

    assert len(lines()) >= 30
    assert not unshown, "\n".join(unshown)


def test_every_shown_difference_is_in_the_readme():
    assert [start for start in SHOWN if not any(line.startswith(start) for line in lines())] == []


def test_no_call_may_differ_for_a_reason_that_is_not_in_the_readme():
    shown = {one for of_line in SHOWN.values() for one in of_line if not one.endswith(".py")}

    assert shown == REASONS


@pytest.mark.parametrize(
    "path", sorted({one for of_line in SHOWN.values() for one in of_line if one.endswith(".py")})
)
def test_the_tests_named_here_exist(path):
    assert "def test_" in (TESTS / path).read_text()
