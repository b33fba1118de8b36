"""_maintain_captures: new partitions of captured tables.

Also covers _cover_partition, _create_capture_triggers, _let_capture_read, _append_table and
_require_all_rows.
"""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value
from support.capture import apply, contents, copy_of, logged
from support.servers import Database


@pytest.fixture
def captured(connection: psycopg.Connection) -> psycopg.Connection:
    """A captured partitioned table with one partition."""
    connection.execute(
        """create table account (id int primary key, name text) partition by range (id);
        create table low partition of account for values from (0) to (100);
        select pgq.create_queue('changes')"""
    )
    connection.execute("select sluice.capture('account', 'changes')")
    copy_of(connection, "account")
    return connection


def maintain(connection: psycopg.Connection) -> list[tuple]:
    return rows(
        connection, "select done, detail from sluice.maintain() where task = 'captures' order by 2"
    )


def copied(connection: psycopg.Connection) -> bool:
    """True if the events of the log give the table."""
    connection.execute("truncate copy")
    apply(connection, logged(connection))
    return contents(connection, "copy") == contents(connection, "account")


def test_new_and_attached_partitions_are_captured_with_their_rows(captured: psycopg.Connection):
    captured.execute(
        """create table top partition of account for values from (100) to (200);
        create table old (name text, id int not null);
        insert into old values ('x', 200), ('y', 201);
        alter table account attach partition old for values from (200) to (300);
        insert into account values (100, 'by the table'), (202, 'by the table');
        insert into top values (101, 'by the partition'), (102, 'by the partition');
        update top set name = 'changed' where id = 100"""
    )
    assert not copied(captured)

    assert maintain(captured) == [
        (True, "partition public.old of public.account is captured"),
        (True, "partition public.top of public.account is captured"),
    ]
    assert maintain(captured) == []
    assert copied(captured)
    captured.execute("insert into top values (103, 'z'); delete from old where id = 200")
    captured.execute("truncate top; insert into top values (104, 'z')")
    assert copied(captured)
    assert rows(captured, "select distinct ev_extra1 from pgq.event_1") == [("public.account",)]


def test_operations_of_the_capture_hold_for_new_partitions(captured: psycopg.Connection):
    captured.execute(
        """select sluice.capture('account', 'changes', '{"operations": ["delete", "truncate"]}')"""
    )
    captured.execute("create table top partition of account for values from (100) to (200)")
    captured.execute("insert into top values (100, 'a'), (101, 'b')")
    assert [done for done, _ in maintain(captured)] == [True]
    captured.execute("insert into top values (102, 'c'); delete from top where id = 100")
    captured.execute("truncate top")

    assert [op for op, _ in logged(captured)] == ["d", "d", "d"]


def test_partition_in_use_is_left_to_the_next_call(
    captured: psycopg.Connection, database: Database
):
    captured.execute("create table top partition of account for values from (100) to (200)")
    with database.connect() as writer, writer.transaction():
        writer.execute("insert into top values (100, 'a')")
        assert maintain(captured) == [(False, "public.top is in use; the next call tries again")]
    assert maintain(captured) == [(True, "partition public.top of public.account is captured")]
    assert copied(captured)


def test_partition_without_the_right_to_capture_it_is_named_until_it_is_captured(
    captured: psycopg.Connection, role: str
):
    captured.execute(f"grant sluice_admin to {role}; grant all on account to {role}")
    captured.execute("create table top partition of account for values from (100) to (200)")
    captured.execute("insert into top values (100, 'a')")
    with captured.transaction():
        captured.execute(f"set local role {role}")
        assert maintain(captured) == [
            (
                False,
                "partition public.top of public.account is not captured: permission denied for table top",
            )
        ]
    captured.execute(f"revoke sluice_admin from {role}; revoke all on account from {role}")
    failures = "select task, queue_name from sluice.list_failures()"
    assert rows(captured, failures) == [("captures", "changes")]

    captured.execute("select sluice.capture('account', 'changes')")
    maintain(captured)

    assert rows(captured, failures) == []
    assert copied(captured)


def test_large_partition_is_left_to_an_explicit_call(captured: psycopg.Connection):
    captured.execute(
        """create table large (id int not null, name text) with (fillfactor = 10);
        alter table large alter name set storage plain;
        insert into large select n, repeat('x', 4000) from generate_series(101, 9000) as n;
        alter table account attach partition large for values from (100) to (10000)"""
    )
    ((done, detail),) = maintain(captured)
    assert (done, detail) == (
        False,
        "partition public.large of public.account is not captured: it has more than 64 MB, and its writers wait meanwhile; "
        "run: select sluice.capture('public.account', 'changes', '{}')",
    )

    captured.execute("select sluice.capture('account', 'changes', '{}')")

    assert value(captured, "select count(*) from pgq.event_1") == 8900


@pytest.mark.parametrize(
    ("statement", "relative"),
    [
        ("create table heir () inherits (single)", "heir"),
        ("create table heir (id int not null); alter table heir inherit single", "heir"),
        ("create table elder (id int); alter table single inherit elder", "elder"),
    ],
)
def test_inheritance_after_the_capture_is_reported(
    captured: psycopg.Connection, statement: str, relative: str
):
    captured.execute("create table single (id int primary key)")
    captured.execute("select sluice.capture('single', 'changes')")
    captured.execute(statement)
    captured.execute("create table high partition of account for values from (100) to (200)")

    assert sorted(maintain(captured), reverse=True) == [
        (True, "partition public.high of public.account is captured"),
        (
            False,
            f"partition public.{relative} of public.single is not captured: public.single cannot be captured",
        ),
    ]
    listed = "select source_table::text, partition::text from sluice.list_uncovered_partitions()"
    assert rows(captured, listed) == [("single", relative)]
