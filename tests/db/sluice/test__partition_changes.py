"""_partition_changes: partitions of captured tables that were dropped, detached or attached again.

Also covers _follow_partitions and _note_partitions.
"""

from __future__ import annotations

import json

import psycopg
import pytest

from support import rows, value
from support.capture import apply, contents, copy_of, logged
from support.servers import Database


@pytest.fixture(params=["keep", "delete"])
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def captured(connection: psycopg.Connection, policy: str) -> psycopg.Connection:
    """A captured table with the partitions low and high, each with a row in the log."""
    connection.execute(
        """create table account (id int primary key, name text) partition by range (id);
        create table low partition of account for values from (0) to (100);
        create table high partition of account for values from (100) to (200);
        select pgq.create_queue('changes')"""
    )
    options = json.dumps({"dropped_partitions": policy} if policy == "delete" else {})
    connection.execute("select sluice.capture('account', 'changes', %s)", [options])
    connection.execute("insert into account values (1, 'a'), (101, 'b')")
    return connection


def maintain(connection: psycopg.Connection) -> list[tuple]:
    return rows(
        connection, "select done, detail from sluice.maintain() where task = 'captures' order by 2"
    )


def marks(connection: psycopg.Connection) -> list[tuple]:
    """Return the events about partitions: state, name, policy and whether it is captured."""
    query = (
        "select ev_extra1, ev_data::jsonb - 'oid' from pgq.event_1 where ev_type = 'sluice.partition' "
        "order by ev_id"
    )
    return [
        (table, d["state"], d["partition"], d["policy"], d["captured"])
        for table, d in rows(connection, query)
    ]


def test_dropped_partition_has_one_event_after_the_events_of_its_rows(
    captured: psycopg.Connection, policy: str
):
    assert maintain(captured) == []
    captured.execute("drop table high")

    assert maintain(captured) == [(True, "partitions of public.account: public.high is dropped")]
    assert maintain(captured) == []
    assert marks(captured) == [("public.account", "dropped", "public.high", policy, False)]
    (last,) = rows(captured, "select ev_type from pgq.event_1 order by ev_id desc limit 1")[0]
    assert last == "sluice.partition"
    assert value(captured, "select count(*) from sluice.captured_partition") == 1


def test_capture_called_again_appends_events_of_dropped_partitions(
    captured: psycopg.Connection, policy: str
):
    captured.execute("create table top partition of account for values from (200) to (300)")
    maintain(captured)
    captured.execute("drop table top")
    captured.execute("alter table low rename to lower; drop table high")
    options = json.dumps({"dropped_partitions": policy})
    captured.execute("select sluice.capture('account', 'changes', %s)", [options])

    assert [change[2] for change in marks(captured)] == ["public.high", "public.top"]
    names = "select partition_name from sluice.captured_partition"
    assert rows(captured, names) == [("public.lower",)]


def test_partition_that_is_detached_and_attached_again_has_two_events(
    captured: psycopg.Connection, policy: str
):
    captured.execute("alter table account detach partition high")
    maintain(captured)
    captured.execute("insert into high values (102, 'c'); delete from high where id = 101")
    assert marks(captured) == [
        ("public.account", "detached", "public.high", policy, policy == "keep")
    ]

    captured.execute("alter table account attach partition high for values from (100) to (200)")
    maintain(captured)
    assert maintain(captured) == []

    if policy == "keep":  # its changes were captured meanwhile
        assert marks(captured)[1:] == [("public.account", "attached", "public.high", "keep", True)]
    else:  # it is a new partition, whose rows are appended
        assert marks(captured)[1:] == []
        captured.execute("delete from pgq.event_1 where ev_id = 2")  # the deleted row
    copy_of(captured, "account")
    apply(captured, [event for event in logged(captured) if event[0] != "sluice.partition"])
    assert contents(captured, "copy") == contents(captured, "account")


def test_partition_detached_and_attached_between_two_calls_has_no_event(
    captured: psycopg.Connection,
):
    captured.execute(
        """alter table account detach partition high; truncate high; insert into high values (103, 'd');
        alter table account attach partition high for values from (100) to (200)"""
    )
    assert maintain(captured) == []
    assert marks(captured) == []
    copy_of(captured, "account")
    apply(captured, logged(captured))
    assert contents(captured, "copy") == contents(captured, "account")


def test_partition_dropped_after_it_was_detached_is_forgotten(
    captured: psycopg.Connection, policy: str
):
    captured.execute("alter table account detach partition high")
    maintain(captured)
    captured.execute("drop table high")
    maintain(captured)
    assert [change[1] for change in marks(captured)] == ["detached"]
    assert rows(captured, "select partition_name from sluice.captured_partition") == [
        ("public.low",)
    ]


def test_attached_partition_whose_capture_was_dropped_has_another_event(
    captured: psycopg.Connection, policy: str
):
    captured.execute("alter table account detach partition high")
    maintain(captured)
    captured.execute("select sluice.drop_capture('high', 'changes')")
    captured.execute("alter table account attach partition high for values from (100) to (200)")
    maintain(captured)

    expected = [("public.account", "attached", "public.high", "keep", False)]
    assert marks(captured)[1:] == (expected if policy == "keep" else [])


def test_partition_that_lost_its_triggers_has_an_event_before_it_is_captured_again(
    captured: psycopg.Connection, policy: str
):
    captured.execute(
        """alter table account detach partition high; select sluice.drop_capture('high', 'changes');
        alter table account attach partition high for values from (100) to (200)"""
    )
    assert maintain(captured) == [
        (True, "partition public.high of public.account is captured"),
        (True, "partitions of public.account: public.high is uncaptured"),
    ]
    assert maintain(captured) == []
    assert marks(captured) == [("public.account", "uncaptured", "public.high", policy, False)]
    assert logged(captured)[-1][0] == "r"


def test_leaves_of_a_dropped_partition_have_events(captured: psycopg.Connection):
    captured.execute(
        """create table top partition of account for values from (200) to (300) partition by range (id);
        create table top_1 partition of top for values from (200) to (250);
        create table top_2 partition of top for values from (250) to (300)"""
    )
    maintain(captured)
    captured.execute("drop table top")
    maintain(captured)
    assert [change[2] for change in marks(captured)] == ["public.top_1", "public.top_2"]


def test_two_concurrent_calls_append_one_event(captured: psycopg.Connection, database: Database):
    captured.execute("drop table high")
    with database.connect() as other:
        with other.transaction():
            other.execute("select sluice._note_partitions('changes', 'account'::regclass)")
            assert maintain(captured) == [
                (False, "partitions of public.account are in use; the next call tries again")
            ]
        assert maintain(captured) == []
    assert len(marks(captured)) == 1


@pytest.mark.parametrize("policy", ["delete"], indirect=True)
def test_detached_partition_of_another_owner_is_named_until_its_capture_is_dropped(
    captured: psycopg.Connection, role: str
):
    captured.execute(f"grant sluice_admin to {role}")
    captured.execute("alter table account detach partition high")
    with captured.transaction():
        captured.execute(f"set local role {role}")
        ((done, detail),) = maintain(captured)
    assert not done
    assert detail.startswith("partitions of public.account cannot be followed: must be owner of")
    assert marks(captured) == []
    failures = "select task, queue_name from sluice.list_failures()"
    assert rows(captured, failures) == [("captures", "changes")]
    captured.execute(f"revoke sluice_admin from {role}")

    maintain(captured)

    assert [change[1] for change in marks(captured)] == ["detached"]
    assert rows(captured, failures) == []


def test_log_and_table_that_are_gone_leave_nothing(captured: psycopg.Connection):
    captured.execute("select sluice.drop_capture('account', 'changes')")
    captured.execute("drop table account")
    assert maintain(captured) == []
    captured.execute("select pgq.drop_queue('changes', true)")
    assert value(captured, "select count(*) from sluice.captured_partition") == 0


def test_option_refuses_other_policies(captured: psycopg.Connection):
    with pytest.raises(psycopg.DataError) as failure:
        captured.execute(
            """select sluice.capture('account', 'changes', '{"dropped_partitions": true}')"""
        )
    assert failure.value.diag.message_hint == 'give it "keep" or "delete"'
