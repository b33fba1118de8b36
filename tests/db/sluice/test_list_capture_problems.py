"""list_capture_problems: captured tables whose changes are not captured, or differ from those of their log."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value
from support.capture import logged

LISTED = (
    "select log_name, source_table::text, kind, problem, hint from sluice.list_capture_problems()"
)


def listed(connection: psycopg.Connection) -> list[tuple]:
    return rows(connection, LISTED)


def test_captures_as_the_installed_version_writes_them_have_no_problem(
    connection: psycopg.Connection, captured: str
):
    connection.execute(
        """create table parted (id int primary key, v text) partition by range (id);
        create table part partition of parted default;
        create table few (id int primary key); create table pgq_s (id int primary key)"""
    )
    connection.execute(
        """select sluice.capture('parted', 'changes', '{"replicated": true, "ignore": ["v"]}')"""
    )
    connection.execute("""select sluice.capture('few', 'changes', '{"operations": ["update"]}')""")
    connection.execute(
        "create trigger t after insert on pgq_s for each row execute function pgq.jsontriga('changes')"
    )
    assert listed(connection) == []


PROBLEMS = {
    "disabled": (
        "alter table account disable trigger sluice_capture_update_1",
        "changes of table public.account are not captured: trigger sluice_capture_update_1 is disabled",
    ),
    "for replicas": (
        "alter table account enable replica trigger sluice_capture_update_1",
        "changes of table public.account are not captured: trigger sluice_capture_update_1 fires on replicas only",
    ),
    "dropped trigger": (
        "drop trigger sluice_capture_delete_1 on account",
        "changes of table public.account by delete are not captured: the trigger was dropped",
    ),
    "no JSON": (
        """create or replace trigger sluice_capture_insert_1 after insert on account
        referencing new table as new_rows for each statement execute function sluice.capture_changes('changes', 'x')""",
        "table public.account cannot be written: trigger sluice_capture_insert_1 has other arguments than",
    ),
    "no arguments": (
        """create trigger broken after insert on account referencing new table as new_rows
        for each statement execute function sluice.capture_changes()""",
        "table public.account cannot be written: trigger broken has other arguments than sluice.capture writes",
    ),
    "no log": (
        "select pgq.drop_queue('changes', true)",
        "table public.account cannot be written: it is captured into event log 'changes', which does not exist",
    ),
    "unlogged": (
        "alter table account set unlogged",
        "table public.account is unlogged: a crash of the server empties it without an event",
    ),
    "PgQ": (
        """create trigger t after insert on account for each row execute function pgq.logutriga('changes');
        alter table account disable trigger t""",
        "changes of table public.account are not captured: trigger t is disabled",
    ),
}


@pytest.mark.parametrize(("statements", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_problem_is_listed_until_its_hint_is_followed(
    connection: psycopg.Connection, captured: str, statements: str, problem: str
):
    connection.execute(statements)  # type: ignore[arg-type]

    ((log, table, kind, found, hint),) = listed(connection)
    assert (log, table) == ("" if "broken" in found else "changes", "account")
    assert found.startswith(problem)
    if kind == "malformed":
        with pytest.raises(psycopg.Error):
            connection.execute("insert into account values (1, 'a')")
    connection.execute(hint)
    assert listed(connection) == []
    connection.execute("insert into account values (1, 'a')")
    assert not value(connection, "select exists (select from pgq.queue)") or logged(connection)


def test_partition_whose_trigger_lacks_the_name_of_its_root_is_malformed(
    connection: psycopg.Connection,
):
    connection.execute(
        """create table account (id int primary key) partition by range (id);
        create table part partition of account default; select pgq.create_queue('changes')"""
    )
    connection.execute("select sluice.capture('account', 'changes')")
    connection.execute(
        """create or replace trigger sluice_capture_truncate_1 before truncate on part
        for each statement execute function sluice.capture_changes('changes', '{}')"""
    )
    ((_, table, kind, _, hint),) = listed(connection)
    assert (table, kind) == ("account", "malformed")
    connection.execute(hint)
    assert listed(connection) == []


def test_partitions_that_maintenance_has_not_seen_are_listed(connection: psycopg.Connection):
    connection.execute(
        """create table account (id int primary key) partition by range (id);
        create unlogged table low partition of account for values from (0) to (10);
        create table high partition of account for values from (10) to (20);
        create table top partition of account default; select pgq.create_queue('changes')"""
    )
    connection.execute("alter table low set logged")
    connection.execute("select sluice.capture('account', 'changes')")
    connection.execute(
        "drop table top; alter table account detach partition high; alter table low set unlogged"
    )
    assert [(table, kind, found) for _, table, kind, found, _ in listed(connection)] == [
        (
            "account",
            "partitions",
            "partitions of table public.account were changed since the last maintenance: "
            "public.high is detached, public.top is dropped",
        ),
        (
            "account",
            "unlogged",
            "table public.low is unlogged: a crash of the server empties it without an event",
        ),
        (
            "high",
            "detached",
            "table public.high is detached, and still captured as a partition of its former table",
        ),
    ]
    connection.execute("select * from sluice.maintain()")
    assert [kind for _, _, kind, _, _ in listed(connection)] == ["unlogged", "detached"]


def test_replicated_changes_are_captured_if_wanted(connection: psycopg.Connection, captured: str):
    connection.execute("create table wanted (id int primary key, v text)")
    connection.execute("""select sluice.capture('wanted', 'changes', '{"replicated": true}')""")
    connection.execute("set session_replication_role = replica")
    connection.execute("insert into account values (1, 'a'); insert into wanted values (1, 'a')")
    connection.execute("update wanted set v = 'b'; truncate wanted")
    connection.execute("reset session_replication_role")
    assert [op for op, _ in logged(connection)] == ["c", "u", "t"]
    assert listed(connection) == []

    connection.execute("alter table wanted enable trigger sluice_capture_update_1")

    ((_, table, kind, found, hint),) = listed(connection)
    assert (table, kind) == ("wanted", "replicated")
    assert found.endswith("not captured: trigger sluice_capture_update_1 is not enabled always")
    connection.execute(hint)
    assert listed(connection) == []
    connection.execute("select sluice.capture('wanted', 'changes')")
    connection.execute("set session_replication_role = replica")
    connection.execute("insert into wanted values (2, 'a')")
    assert len(logged(connection)) == 3


def test_options_about_partitions_and_replicas_keep_the_short_way_of_single_rows(
    connection: psycopg.Connection, captured: str
):
    connection.execute(
        """select sluice.capture('account', 'changes', '{"replicated": true, "dropped_partitions": "keep"}')"""
    )
    connection.execute("set sluice.planned_trigger = ''")
    query = "select set_config('sluice.planned_trigger', 'account'::regclass::oid || ' sluice_capture_insert_1', false)"
    connection.execute(query)  # type: ignore[arg-type]
    assert value(connection, "select (sluice._read_shape())[3]") == "changes"
    connection.execute("""select sluice.capture('account', 'changes', '{"before": true}')""")
    assert value(connection, "select sluice._read_shape()") is None


def test_monitors_may_list(connection: psycopg.Connection, captured: str, as_member):
    connection.execute("alter table account disable trigger sluice_capture_update_1")
    assert len(as_member("sluice_monitor", LISTED)) == 1
