"""Captures whose triggers someone has edited: sluice._captures, sluice.list_captures, sluice._maintain_captures."""

import pytest

from support import rows

BROKEN = {
    "options that are no JSON": "('changes', 'not json')",
    "options that are no object": "('changes', '[1]')",
    "no argument": "()",
    "no options": "('changes', '')",
}


@pytest.mark.parametrize("arguments", BROKEN.values(), ids=BROKEN)
def test_a_capture_with_malformed_arguments_does_not_stop_others(connection, captured, arguments):
    connection.execute("create table broken (id int primary key)")
    connection.execute(
        "create trigger broken after insert on broken referencing new table as new_rows "
        f"for each statement execute function sluice.capture_changes{arguments}"
    )
    connection.execute("create table parted (id int primary key) partition by range (id)")
    connection.execute("select sluice.capture('parted', 'changes')")
    connection.execute("create table part partition of parted default")

    done = rows(connection, "select done, detail from sluice._maintain_captures()")
    assert done == [(True, "partition public.part of public.parted is captured")]
    listed = rows(
        connection,
        "select source_table::text, enabled from sluice.list_captures() order by 1",
    )
    assert ("account", True) in listed
    assert ("parted", True) in listed
    assert ("broken", False) in listed
    connection.execute("select sluice.drop_capture('account', 'changes')")
    connection.execute("select sluice.capture('account', 'changes')")
    rows(connection, "select * from sluice.list_shapes('changes')")
    rows(connection, "select * from sluice.list_uncovered_partitions()")
