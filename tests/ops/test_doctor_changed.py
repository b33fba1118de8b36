"""Changes by hand: doctor and `schema verify` name each, and the named command corrects it."""

from __future__ import annotations

import psycopg
import pytest

from pgsluice import schema
from support import value, wait_until
from support.doctor import QUIET, seen

NULL = (
    "create function public.nothing() returns trigger language plpgsql as 'begin return null; end'"
)
GONE = "its rows in pgq.position_0 and pgq.position_1 are missing"


@pytest.fixture
def log(connection):
    for statement in (
        "select pgmq.create('orders')",
        "select pgmq.create_unlogged('sessions')",
        "select pgmq.create_partitioned('parts', '100', '1000')",
        "select pgmq.send('orders', '{}'), pgmq.send('parts', '{}')",
        "select pgq.create_queue('changes'), pgq.register_consumer('changes', 'lake')",
        "select sluice.create_group('changes', 'mail')",
        "create table public.shop (id int primary key)",
        "select sluice.capture('public.shop', 'changes')",
        "select pgq.insert_event('changes', 't', '1'), pgq.force_tick('changes')",
        "select pgq.ticker('changes')",
    ):
        connection.execute(statement)
    return connection


def test_unchanged_system_has_nothing_to_report(doctor, log):
    for check in ("objects", "log_rows", "captures", "settings", "notify_triggers"):
        assert seen(doctor.finding(check)) == QUIET
    assert schema.problems(log) == ()
    assert schema.catalog_differences(log) == []


# The change, the object and problem, and the statement that corrects it if it is a command of its own.
TABLES = {
    "column": (
        "alter table pgq.queue drop column queue_per_tx_limit",
        "column pgq.queue.queue_per_tx_limit is missing",
    ),
    "index": (
        "drop index pgq.position_0_batch_idx",
        "index pgq.position_0_batch_idx of pgq.position_0 is missing",
    ),
    "check": (
        "alter table pgq.queue drop constraint queue_names_check",
        "constraint pgq.queue.queue_names_check is missing",
    ),
    "key": (
        "alter table sluice.dead_letter_message drop constraint dead_letter_message_pkey cascade",
        "constraint sluice.dead_letter_message.dead_letter_message_pkey is missing",
    ),
    "parent": (
        "alter table pgq.retry_entry_1 no inherit pgq.retry_entry",
        "inheritance of pgq.retry_entry_1 from pgq.retry_entry is missing",
    ),
    "sequence": ("drop sequence pgq.batch_id_seq", "sequence pgq.batch_id_seq is missing"),
    "grant": (
        "revoke select on pgq.queue from public",
        "grant SELECT on pgq.queue to public is missing",
    ),
    "disabled trigger": (
        "alter table pgq.truncation disable trigger user",
        "trigger pgq.truncation.refuse_if_dumped is disabled",
    ),
    "replica trigger": (
        "alter table pgq.truncation enable replica trigger refuse_if_dumped",
        "trigger pgq.truncation.refuse_if_dumped is enabled on replicas only",
    ),
    "row trigger": (
        "create trigger x before insert on pgq.position_0 for each row execute function public.nothing()",
        "trigger x of pgq.position_0 runs before each row, and can discard it",
    ),
    "rule": (
        "create rule r as on insert to pgmq.meta do instead nothing",
        "rule r rewrites writes of pgmq.meta",
    ),
    "row security": (
        "alter table pgq.queue enable row level security",
        "table pgq.queue has row-level security without a policy",
    ),
    "unlogged": ("alter table pgq.truncation set unlogged", "table pgq.truncation is unlogged"),
    "owner": ("alter table pgq.queue owner to postgres", "table pgq.queue belongs to postgres"),
}


@pytest.mark.parametrize("case", TABLES)
def test_changed_table_of_the_schemas_is_reported_until_it_is_corrected(doctor, log, case):
    change, problem = TABLES[case]
    log.execute(NULL)
    log.execute(change)

    found = doctor.finding("objects")

    assert found.status == "fail"
    assert problem in found.what
    doctor.run(found)
    assert seen(doctor.finding("objects")) == QUIET


def test_table_that_is_gone_is_named_once_without_a_command(doctor, log):
    log.execute("drop table sluice.failure")

    found = doctor.finding("objects")

    assert found.what == (
        "table sluice.failure is missing: its rows are gone; create it again, empty, with: pgsluice schema install"
    )
    assert found.commands == ()


def test_own_index_column_grant_and_trigger_do_no_harm(doctor, log):
    log.execute("create function public.tell() returns trigger language plpgsql as 'begin return new; end'")  # fmt: skip
    for statement in (
        "create index mine on sluice.dead_letter (reason)",
        "grant select on sluice.dead_letter to pg_monitor",
        "create trigger tell after insert on sluice.dead_letter for each row execute function tell()",
        "create trigger tell before insert on pgmq.q_orders for each row execute function tell()",
        "create trigger tell before insert on pgq.event_1_0 for each row execute function tell()",
        "alter table pgmq.q_orders enable row level security",
        "create table pgmq.mine (id int)",
    ):
        log.execute(statement)

    assert seen(doctor.finding("objects")) == QUIET


# The change; the problem; and the statements of the way out.
QUEUES_AND_LOGS = {
    "row of meta": (
        "delete from pgmq.meta where queue_name = 'orders'",
        "queue 'orders': pgmq.q_orders has no row in pgmq.meta",
    ),
    "row of meta, partitioned": (
        "delete from pgmq.meta where queue_name = 'parts'",
        "values ('parts', true, false)",
    ),
    "archive": ("drop table pgmq.a_orders", "its table pgmq.a_orders is missing"),
    "column of a queue": (
        "alter table pgmq.q_orders drop column headers",
        "column headers of pgmq.q_orders is missing",
    ),
    "index of a queue": (
        "drop index pgmq.q_orders_vt_idx",
        "pgmq.q_orders has no valid index on vt",
    ),
    "key of a queue": (
        "alter table pgmq.q_orders drop constraint q_orders_pkey",
        "alter table pgmq.q_orders add primary key (msg_id)",
    ),
    "unlogged queue": ("alter table pgmq.q_orders set unlogged", "pgmq.q_orders is unlogged"),
    "rule of a queue": (
        "create rule r as on insert to pgmq.q_orders do instead nothing",
        "rule r rewrites writes of pgmq.q_orders",
    ),
    "trigger of a queue": (
        "create trigger x before insert on pgmq.q_orders for each row execute function public.nothing()",
        "trigger x of pgmq.q_orders can discard rows",
    ),
    "forced row security": (
        "alter table pgmq.q_orders enable row level security, force row level security",
        "row-level security of pgmq.q_orders applies to its owner",
    ),
    "detached partition": (
        "alter table pgmq.q_parts detach partition pgmq.{part}",
        "is detached, and its messages are not seen",
    ),
    "trigger of a log": (
        "create trigger x before insert on pgq.event_1_0 for each row execute function public.nothing()",
        "log 'changes': trigger x of pgq.event_1_0 can discard rows",
    ),
    "trigger of ticks": (
        "create trigger x before insert on pgq.tick_1_0 for each row execute function public.nothing()",
        "trigger x of pgq.tick_1_0 can discard rows",
    ),
    "segment": ("drop table pgq.event_1_1", "its table pgq.event_1_1 is missing, with its events"),
    "last segment": (
        "drop table pgq.event_1_2, pgq.tick_1_2",
        "its table pgq.tick_1_2 is missing, with its ticks",
    ),
    "detached segment": (
        "alter table pgq.event_1_0 no inherit pgq.event_1",
        "pgq.event_1_0 is detached from its log",
    ),
    "index of a log": ("drop index pgq.event_1_0_id_idx", "no valid index on ev_id"),
    "key of ticks": (
        "alter table pgq.tick_1_0 drop constraint tick_1_0_pkey",
        "alter table pgq.tick_1_0 add primary key (tick_id)",
    ),
    "unlogged log": ("alter table pgq.event_1_0 set unlogged", "pgq.event_1_0 is unlogged"),
    "owner of a segment": (
        "alter table pgq.event_1_0 owner to postgres",
        "pgq.event_1_0 belongs to postgres",
    ),
    "sequence of a log": (
        "drop sequence pgq.event_1_tick_seq",
        "its sequence pgq.event_1_tick_seq is missing",
    ),
}


@pytest.mark.parametrize("case", QUEUES_AND_LOGS)
def test_changed_queue_or_log_is_named_with_a_hint(doctor, log, case):
    change, problem = QUEUES_AND_LOGS[case]
    log.execute(NULL)
    part = value(
        log, "select inhrelid::regclass::text from pg_inherits, pgmq.q_parts as q "
        "where inhparent = 'pgmq.q_parts'::regclass and inhrelid = q.tableoid"
    )  # fmt: skip
    log.execute(change.format(part=str(part).removeprefix("pgmq.")).encode())

    found = doctor.finding("objects")

    assert found.status == "fail"
    assert problem in found.what
    assert any(problem in line for line in schema.problems(log))


def test_deleted_row_of_meta_can_be_written_again(log):
    log.execute("delete from pgmq.meta where queue_name = 'parts'")
    [line] = schema.problems(log)
    statement = line.split("with: ")[1].split(";")[0]

    log.execute(statement.encode())

    assert schema.problems(log) == ()
    assert value(log, "select count(*) from pgmq.read('parts', 30, 10)") == 1


def test_dropped_segment_is_created_again(log):
    log.execute("drop table pgq.event_1_1")
    [line] = schema.problems(log)
    for statement in line.split("with: ")[1].split("; then")[0].split("; "):
        log.execute(statement.encode())

    assert schema.problems(log) == ()
    assert value(log, "select relowner::regrole::text from pg_class where relname = 'event_1_1'") == (
        "sluice_owner"
    )  # fmt: skip


def test_dropped_row_of_a_log_leaves_tables_that_are_named(log):
    log.execute("select sluice.drop_group('changes', 'mail')")
    log.execute("alter table pgq.subscriber disable trigger all")
    log.execute("alter table pgq.queue disable trigger all")
    log.execute("delete from pgq.queue")

    assert any("pgq.event_1 has no row in pgq.queue" in line for line in schema.problems(log))


ROWS = {
    "ticks": ("delete from pgq.tick", "log 'changes': it has no tick"),
    "number of ticks": (
        "select setval('pgq.event_1_tick_seq', 1, false)",
        "its next tick gets number 1, and there are ticks up to",
    ),
    "number of events": (
        "insert into pgq.tick_1_0 values (1, 100, now(), pg_current_snapshot(), 9000);"
        "select setval('pgq.event_1_tick_seq', 100)",
        "and there are events up to 9000",
    ),
    "number of batches": (
        "select pgq.next_batch('changes', 'lake'); select setval('pgq.batch_id_seq', 1, false);"
        "update pgq.position_0 set pos_batch = 7 where pos_batch is not null",
        "there are batches up to 7",
    ),
    "positions": ("truncate pgq.position_0, pgq.position_1", f"consumer lake has lost its position: {GONE}"),
    "claims": (
        "truncate sluice.claim_0, sluice.claim_1",
        "share group mail has lost its claims, and with them its retries",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
def test_changed_rows_of_a_log_are_reported_until_they_are_corrected(doctor, log, case):
    assert seen(doctor.finding("log_rows")) == QUIET
    change, problem = ROWS[case]
    log.execute(change)

    found = doctor.finding("log_rows")

    assert found.status == "fail"
    assert problem in found.what
    assert any(problem.removeprefix("log 'changes': ") in line for line in schema.problems(log))
    doctor.run(found)
    assert seen(doctor.finding("log_rows")) == QUIET


def test_consumer_without_position_is_refused_with_the_reason_and_continues_at_a_tick(log):
    log.execute("truncate pgq.position_0, pgq.position_1")
    for call in (
        "pgq.next_batch('changes', 'lake')",
        "sluice.log_start('changes', 'lake', 'committed')",
        "pgq_coop.next_batch('changes', 'lake', 'one')",
    ):
        with pytest.raises(
            psycopg.Error, match=f"lake on queue changes was lost: {GONE}"
        ) as caught:
            log.execute(f"select {call}")
        assert caught.value.sqlstate == "PQ006"
        assert caught.value.diag.message_hint == (
            "move it to a tick, such as the oldest one that is kept: "
            "pgq.register_consumer_at('changes', 'lake', 1)"
        )
    log.execute("select pgq.register_consumer_at('changes', 'lake', 1)")

    batch = value(log, "select pgq.next_batch('changes', 'lake')")

    assert value(log, "select count(*) from pgq.get_batch_events(%s)", batch) == 1


def test_share_group_without_position_continues_and_writes_it(log):
    log.execute("truncate pgq.position_0, pgq.position_1")

    assert value(log, "select count(*) from sluice.claim('changes', 'mail', 5)") == 1

    position = "select pos_last_tick from pgq.standing where sub_key = (select sub_key from sluice.share_group)"
    wait_until(
        lambda: (
            log.execute("select from sluice.claim('changes', 'mail', 5)") is not None
            and value(log, position) is not None
        ),
        "the claim that moves the group, once a second",
    )


def test_share_group_that_lost_its_claims_is_created_anew_where_it_stopped(doctor, log):
    log.execute("select sluice.set_group_options('changes', 'mail', '{\"max_attempts\": 3}')")
    log.execute("truncate sluice.claim_0, sluice.claim_1")
    doctor.run(doctor.finding("log_rows"))

    assert value(log, "select max_attempts from sluice.list_groups('changes', 'mail')") == 3
    assert value(log, "select count(*) from sluice.claim('changes', 'mail', 5)") == 1


def test_capture_trigger_that_does_not_fire_is_reported_until_it_is_enabled(doctor, log):
    assert seen(doctor.finding("captures")) == QUIET
    log.execute("alter table public.shop disable trigger user")

    found = doctor.finding("captures")

    assert found.status == "warn"
    assert "changes of table public.shop are not captured" in found.what
    doctor.run(found)
    assert seen(doctor.finding("captures")) == QUIET


def test_malformed_and_unlogged_captures_are_reported_until_they_are_corrected(doctor, log):
    log.execute(
        "create table public.broken (id int primary key); create table public.light (id int primary key)"
    )
    log.execute("select sluice.capture('broken', 'changes'), sluice.capture('light', 'changes')")
    log.execute("alter table public.light set unlogged")
    log.execute(
        "create or replace trigger sluice_capture_insert_1 after insert on public.broken referencing new table as new_rows "
        "for each statement execute function sluice.capture_changes('changes', 'no options')"
    )

    found = doctor.finding("captures")

    assert found.status == "fail"
    assert "table public.broken cannot be written: trigger sluice_capture_insert_1" in found.what
    assert "table public.light is unlogged" in found.what
    doctor.run(found)
    assert seen(doctor.finding("captures")) == QUIET
    log.execute("insert into public.broken values (1)")


@pytest.mark.slow
def test_verify_names_what_is_missing_and_then_what_no_installation_corrects(log):
    log.execute("drop index pgq.position_0_batch_idx")
    log.execute("alter table pgq.truncation disable trigger user")

    (missing,) = schema.verify(log)
    assert missing.startswith("+index pgq.position_0_batch_idx is missing")
    schema.install(log)
    assert [line.split(";")[0] for line in schema.verify(log)] == [
        "-trigger pgq.truncation.refuse_if_dumped is disabled",
    ]


@pytest.mark.slow
def test_verify_names_the_event_trigger_that_stops_an_upgrade(log):
    log.execute("create function public.no() returns event_trigger language plpgsql as $$ begin raise 'no'; end $$")  # fmt: skip
    log.execute("create event trigger no_ddl on ddl_command_start execute function public.no()")
    try:
        [line] = schema.verify(log)
    finally:
        log.execute("drop event trigger no_ddl")

    assert line == "-an upgrade would fail: no; event trigger no_ddl runs public.no()"
