"""Logical replication: every table of ours has a replica identity, so updates and deletes work."""

from __future__ import annotations

import json
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from conftest import TEMPLATE, VERSIONS, _new_database
from pgsluice import schema
from support import rows, value, wait_until
from support.exports import verify
from support.failures import add_trigger, delay
from support.replication import (
    OUR_SCHEMAS,
    logical_server,
    make_everything,
    tables_without_identity,
)
from support.share_groups import let_pass

SLOT = "reader"
# Functions with an update or a delete that this test does not call, and the reason.
NOT_CALLED = {
    "pgmq._partman_create": "needs pg_partman, and writes its tables",
    "pgmq._partman_forget": "needs pg_partman, and writes its tables",
    "pgq._adopt_retries": "part of adopting PgQ",
    "pgq._rewind_retries": "after the server's clock went back",
    "sluice._forget_settled": "part of sluice.after_restore for a log that came from another server",
}


@pytest.fixture(params=VERSIONS, ids=[f"pg{v}" for v in VERSIONS])
def published(request, servers):
    """A database with objects of every kind, a publication of all tables, and a slot for it."""
    server = logical_server(servers, request.param)
    for database in _new_database(server, TEMPLATE):
        with database.connect() as connection:
            connection.execute("set track_functions = 'all'")
            connection.execute("create publication everything for all tables")
            connection.execute(
                f"select pg_create_logical_replication_slot('{SLOT}', 'pgoutput')".encode()
            )
            try:
                make_everything(connection)
                yield connection
            finally:
                connection.execute("select pg_drop_replication_slot(%s)", (SLOT,))


def changes(connection: psycopg.Connection) -> dict[str, int]:
    """Consume the slot's changes; return the number of pgoutput messages of each type."""
    found = rows(
        connection,
        """
        select chr(get_byte(data, 0)), count(*)
        from pg_logical_slot_get_binary_changes(%s, null, null, 'proto_version', '1', 'publication_names', 'everything')
        group by 1
        """,
        SLOT,
    )
    return dict(found)


def test_every_table_has_a_primary_key_or_a_replica_identity(connection):
    make_everything(connection)

    assert tables_without_identity(connection) == []


@pytest.mark.slow
def test_an_upgrade_gives_tables_of_logs_their_replica_identity(connection):
    make_everything(connection)
    take_identity_of_logs(connection)
    assert len(tables_without_identity(connection)) == 8

    schema.install(connection)

    assert tables_without_identity(connection) == []


@pytest.mark.slow
def test_a_second_upgrade_locks_no_table_of_a_log(connection):
    make_everything(connection)
    schema.install(connection)

    with connection.transaction():
        connection.execute("select pgq.tune_storage('changes')")
        locked = rows(
            connection,
            """select relation::regclass from pg_locks
            where pid = pg_backend_pid() and relation::regclass::text ~ '^pgq.(event|tick)_'
              and mode not in ('AccessShareLock', 'RowShareLock')""",
        )

    assert locked == []


def take_identity_of_logs(connection: psycopg.Connection) -> None:
    """Give the tables of logs the default replica identity, as tables of an adopted log have."""
    connection.execute(
        """
        do $$
        declare
            v_table regclass;
        begin
            for v_table in
                select c.oid from pg_class as c
                where c.relnamespace = any ('{pgmq, pgq, sluice}'::regnamespace[]) and c.relkind in ('r', 'p')
                  and c.relreplident <> 'd' and c.relname ~ '^(event|tick)_[0-9]'
            loop
                execute format('alter table %s replica identity default', v_table);
            end loop;
        end;
        $$
        """
    )


@pytest.mark.slow
def test_every_published_table_can_be_updated_and_deleted_from(published):
    tables = [
        (f'"{schema}"."{table}"', column)
        for schema, table, column in rows(
            published,
            """
            select n.nspname, c.relname, (
                select quote_ident(a.attname) from pg_attribute as a
                where a.attrelid = c.oid and a.attnum > 0 and a.attgenerated = '' and a.attidentity <> 'a'
                order by a.attnum limit 1
            )
            from pg_class as c
            join pg_namespace as n on n.oid = c.relnamespace
            where n.nspname = any (%s) and c.relkind in ('r', 'p')
            order by 1, 2
            """,
            OUR_SCHEMAS,
        )
    ]
    assert len(tables) > 90

    failures = []
    for table, column in tables:
        for statement in (
            f"update {table} set {column} = {column} where ctid is null",
            f"delete from {table} where ctid is null",
        ):
            try:
                published.execute(statement.encode())
            except psycopg.Error as error:
                failures.append(f"{statement}: {error}")

    assert failures == []


@pytest.mark.slow
def test_every_call_that_updates_or_deletes_works_under_a_publication(published):
    use_queues(published)
    use_ledgers_of_queues(published)
    use_logs(published)
    use_groups(published)
    maintain(published)
    take_down(published)

    assert missed(published) == set()
    found = changes(published)
    # Inserts, updates, deletes, and the truncation of segments and ledgers.
    assert all(found[kind] > 0 for kind in "IUDT"), found


@pytest.fixture(params=VERSIONS, ids=[f"pg{v}" for v in VERSIONS])
def publisher_and_subscriber(request, servers):
    """A publisher with two queues, and a subscriber with a copy of one archive table."""
    server = logical_server(servers, request.param)
    database_on = contextmanager(_new_database)
    with (
        database_on(server, TEMPLATE) as first,
        database_on(server, "template0") as second,
        first.connect() as publisher,
        second.connect() as subscriber,
    ):
        publisher.execute("create table public.account (id integer primary key)")
        publisher.execute("select pgmq.create('orders'), pgmq.create('mails')")
        subscriber.execute("create table public.account (id integer primary key)")
        subscriber.execute(
            """create schema pgmq;
            create table pgmq.a_orders (
                msg_id bigint primary key, read_ct integer, enqueued_at timestamptz, last_read_at timestamptz,
                archived_at timestamptz, vt timestamptz, message jsonb, headers jsonb
            )"""
        )
        try:
            yield publisher, subscriber
        finally:
            subscriber.execute("alter subscription mirror disable")
            subscriber.execute("alter subscription mirror set (slot_name = none)")
            subscriber.execute("drop subscription mirror")
            wait_until(
                lambda: value(
                    publisher,
                    "select not active from pg_replication_slots where slot_name = 'mirror'",
                ),
                "the subscription to end",
            )
            publisher.execute("select pg_drop_replication_slot('mirror')")


def subscribe(publisher, subscriber, publication, options="copy_data = true"):
    publisher.execute(f"create publication mirror {publication}".encode())
    publisher.execute("select pg_create_logical_replication_slot('mirror', 'pgoutput')")
    # Not info.dsn: the server's libpq may not know all its options; 15 lacks sslcertmode.
    info = publisher.info
    address = make_conninfo(host=info.host, port=info.port, user=info.user, dbname=info.dbname)
    # Within one cluster, CREATE SUBSCRIPTION with create_slot would wait for its own transaction.
    subscriber.execute(
        f"""create subscription mirror connection '{address}' publication mirror
        with (create_slot = false, slot_name = mirror, {options})""".encode()
    )
    wait_until(
        lambda: value(subscriber, "select bool_and(srsubstate = 'r') from pg_subscription_rel"),
        "the initial copy",
    )


def work(publisher):
    for queue in ("orders", "mails"):
        publisher.execute("select pgmq.archive(%s, pgmq.send(%s, '1'))", (queue, queue))
    publisher.execute("insert into account values (1)")


def test_a_subscriber_to_other_schemas_sees_nothing_of_queues(publisher_and_subscriber):
    publisher, subscriber = publisher_and_subscriber
    subscribe(publisher, subscriber, "for tables in schema public")

    work(publisher)

    wait_until(
        lambda: rows(subscriber, "select id from account") == [(1,)], "the row of an account"
    )
    assert rows(subscriber, "select from pgmq.a_orders") == []


@pytest.mark.slow
def test_a_subscriber_to_inserts_of_an_archive_keeps_what_retention_deletes(
    publisher_and_subscriber,
):
    publisher, subscriber = publisher_and_subscriber
    subscribe(publisher, subscriber, "for table pgmq.a_orders, account with (publish = 'insert')")

    work(publisher)
    publisher.execute("delete from pgmq.a_orders")
    publisher.execute("insert into account values (2)")

    wait_until(
        lambda: (2,) in rows(subscriber, "select id from account"),
        "the row inserted after the deletion",
    )
    assert rows(subscriber, "select msg_id, message from pgmq.a_orders") == [(1, 1)]


@pytest.mark.slow
def test_a_subscriber_to_the_schema_of_queues_stops_at_a_queue_that_it_does_not_have(
    publisher_and_subscriber,
):
    publisher, subscriber = publisher_and_subscriber
    subscriber.execute("drop schema pgmq cascade")
    schema.install(subscriber)
    subscriber.execute("select pgmq.create('orders'), pgmq.create('mails')")
    subscribe(publisher, subscriber, "for tables in schema pgmq", "copy_data = false")

    publisher.execute("select pgmq.create('later'), pgmq.send('later', '1')")

    wait_until(
        lambda: value(subscriber, "select apply_error_count > 0 from pg_stat_subscription_stats"),
        "the subscription to fail",
    )


def missed(connection: psycopg.Connection) -> set[str]:
    """Return the functions with an update or a delete in their text that were not called."""
    connection.execute("select pg_stat_force_next_flush()")
    found = rows(
        connection,
        """
        select n.nspname || '.' || p.proname, bool_or(coalesce(s.calls, 0) > 0)
        from pg_proc as p
        join pg_namespace as n on n.oid = p.pronamespace
        left join pg_stat_user_functions as s on s.funcid = p.oid
        where n.nspname = any (%s)
          and p.prosrc ~* '(^|[^a-z])(update (only )?(pgmq|pgq|sluice|%%)|delete from)'
        group by 1
        """,
        OUR_SCHEMAS,
    )
    return {name for name, called in found if not called and name not in NOT_CALLED}


def call(connection: psycopg.Connection, *calls: str) -> None:
    for text in calls:
        connection.execute(f"select {text}".encode())


def claim(connection: psycopg.Connection, queue: str = "target") -> tuple[int, int]:
    """Send a message and claim it; return its msg_id and the claim's read_ct."""
    call(connection, f"pgmq.send('{queue}', '{{}}', '{{\"x-pgmq-group\": \"a\"}}'::jsonb)")
    found = rows(connection, "select msg_id, read_ct from sluice.claim_messages(%s, 60, 1)", queue)
    return found[0]


def claims(connection: psycopg.Connection, queue: str = "target") -> str:
    msg_id, read_ct = claim(connection, queue)
    return f"'{queue}', array[{msg_id}], array[{read_ct}]"


def use_queues(connection: psycopg.Connection) -> None:
    for queue in ("orders", "sessions", "by_id", "by_time", "converted_by_id", "converted_by_time"):
        call(connection, f"pgmq.create('{queue}')" if queue == "orders" else "1")
        call(connection, f"pgmq.send('{queue}', '1')", f"pgmq.read('{queue}', 0, 1)")
        call(connection, f"pgmq.send('{queue}', '1')", f"pgmq.pop('{queue}')")
        call(connection, f"pgmq.read_grouped('{queue}', 0, 1)")
        msg_id, read_ct = claim(connection, queue)
        call(connection, f"pgmq.set_vt('{queue}', {msg_id}, 60)")
        call(connection, f"pgmq.set_vt('{queue}', array[{msg_id}], 60)")
        call(connection, f"sluice.extend('{queue}', {msg_id}, {read_ct}, 60)")
        call(connection, f"sluice.archive('{queue}', {msg_id}, {read_ct})")
        msg_id, read_ct = claim(connection, queue)
        call(connection, f"sluice.release('{queue}', {msg_id}, {read_ct}, 60)")
        call(connection, f"sluice.delete('{queue}', {msg_id}, {read_ct})")
        msg_id, read_ct = claim(connection, queue)
        call(connection, f"sluice.reject('{queue}', {msg_id}, {read_ct}, 'no')")
        call(connection, f"pgmq.delete('{queue}', pgmq.send('{queue}', '1'))")
        call(connection, f"pgmq.delete('{queue}', array[pgmq.send('{queue}', '1')])")
        call(connection, f"pgmq.archive('{queue}', array[pgmq.send('{queue}', '1')])")
        call(connection, f"sluice.purge_messages('{queue}', pgmq.send('{queue}', '1'))")
    call(
        connection,
        f"sluice.extend({claims(connection)}, 60)",
        f"sluice.archive({claims(connection)})",
        f"sluice.release({claims(connection)}, 60)",
        f"sluice.delete({claims(connection)})",
        f"sluice.begin_attempts({claims(connection)}, 'worker')",
        f"sluice.release({claims(connection)}, is_attempt => false)",
        "sluice.start_replay('orders', 'target')",
        "sluice.continue_replay(1)",
        "sluice.queue_stream_start('stream', 'target')",
    )
    msg_id, read_ct = claim(connection)
    failure = json.dumps([{"msg_id": msg_id, "read_ct": read_ct, "max_attempts": 1}])
    call(connection, f"sluice.fail('target', '{failure}', 'worker', '{{\"max_attempts\": 1}}')")
    for action in ("queue_stream_settle(1, 1, true)", "queue_stream_settle(1, 2, false)"):
        call(
            connection,
            "pgmq.send('target', '1')",
            "sluice.queue_stream_claim(1, 1, 10)",
            f"sluice.{action}",
        )
    call(connection, "sluice.queue_stream_drop('stream')")


def use_ledgers_of_queues(connection: psycopg.Connection) -> None:
    call(
        connection,
        "sluice.send('orders', '3', 'another key')",
        *2 * ["sluice.send('orders', '3', 'replaced', null, 0, '{\"on_duplicate\": \"replace\"}')"],
        "sluice.send_batch('orders', array['4'::jsonb], array['a third key'])",
        "pgmq.update_notify_insert('orders', 200)",
        "sluice.redrive('orders')",
        "sluice.purge_dead_letters('by_id', older_than => '0')",
        "sluice.create_export('orders', 'lake', '/elsewhere', 'its id')",
        "sluice.set_queue_options('limited', '{\"rate\": 200}')",
        "sluice.unpark_key('limited', 'a')",
        "sluice.set_queue_options('limited', '{\"pause_reason\": \"another reason\"}')",
        "sluice.report_worker('w', 'app', 'host', 1, '1', '{}', null, '1 s')",
        "sluice.end_worker('w')",
        "sluice._maintain_processes('0')",
        "sluice.set_queue_options('limited', '{\"paused\": null}')",
        'sluice.set_queue_options(\'orders\', \'{"paused": true, "pause_reason": "a reason"}\')',
        "sluice.pause_schedule('nightly')",
        "sluice.pause_schedule('nightly', false)",
        "sluice.schedule('nightly', 'orders', '{}', every => '1 second')",
        "sluice.set_queue_options('orders', '{\"archive_retention\": null}')",
        "sluice.set_queue_options('by_id', '{\"archive_retention\": \"1 microsecond\"}')",
        "sluice.sink_commit('importer', 2)",
        "sluice.drop_stages('importer', 2)",
        "sluice.set_sink_owner('importer', current_user)",
        "sluice.forget_sink('importer')",
    )
    claim(connection, "limited")


def use_logs(connection: psycopg.Connection) -> None:
    connection.execute("insert into account select n, n from generate_series(1, 10) as n")
    connection.execute("update account set amount = 0 where id < 5")
    # The events of a statement of a trigger get new ids.
    connection.execute(
        """create function pg_temp.again() returns trigger language plpgsql as $$
        begin update account set amount = 1 where id = new.id; return null; end $$"""
    )
    connection.execute(
        "create trigger again after insert on account for each row execute function pg_temp.again()"
    )
    connection.execute("insert into account values (11, 11)")
    connection.execute("drop trigger again on account")
    call(connection, "pgq.ticker()")
    batch = value(connection, "select pgq.next_batch('changes', 'plain')")
    call(
        connection,
        f"pgq.event_retry({batch}, ev_id, 0) from pgq.get_batch_events({batch})",
        f"pgq.finish_batch({batch})",
        "sluice.run_schedule('beat')",
        "pgq_coop.next_batch('changes', 'coop', 'first')",
        "pgq.set_queue_config('changes', 'ticker_max_count', '100')",
        *["sluice.hold_pipeline('changes', 'plain', 'events', '/lake', pg_backend_pid())"] * 2,
        "sluice.report_pipeline('changes', 'plain', 1, now())",
    )
    connection.execute("update pgq.subscription set sub_active = now() where sub_consumer = 1")


def use_groups(connection: psycopg.Connection) -> None:
    for group in ("mail", "blocked", "parked"):
        call(
            connection, f"sluice.set_group_options('changes', '{group}', '{{\"max_attempts\": 3}}')"
        )
        for outcome in ("accept", "retry", "reject"):
            claim_id = value(
                connection, "select min(claim_id) from sluice.claim('changes', %s, 2)", group
            )
            if claim_id is not None:
                call(
                    connection, f"sluice.acknowledge('changes', '{group}', {claim_id}, '{outcome}')"
                )
        call(connection, f"sluice.redrive('changes', '{group}')")
        call(connection, f"sluice.purge_dead_letters('changes', '{group}', '0')")
        call(connection, f"sluice.unpark_key('changes', '{group}', 'account')")
    connection.execute("select pgq.insert_event('changes', 'opened', 'renewed')")
    renewed = value(
        connection,
        "select min(claim_id) from sluice.claim('changes', 'mail', 1000, '1 minute')",
    )
    connection.execute("select sluice.renew('changes', 'mail', %s, '1 hour')", [renewed])
    call(
        connection,
        "sluice.declare_types('changes', 'mail', 'shop', array['on_paid'], array['paid'])",
        "sluice.forget_types('changes', 'mail', array['paid'])",
    )
    for time in ("2 minutes", "1 hour"):
        let_pass(connection, time)
        call(connection, "sluice.maintain_groups()")


def maintain(connection: psycopg.Connection) -> None:
    """Call everything that daemons call, with all maintenance due."""
    connection.execute("update sluice.deduplication_key set expires_at = now()")
    connection.execute("update sluice.inbox set expires_at = now()")
    connection.execute("update sluice.schedule_slot set fired_at = '-infinity'")
    connection.execute("update sluice.attempt set check_at = now()")
    connection.execute(
        "update sluice.schedule set next_slot = now(), due_at = now() where name = 'beat'"
    )
    connection.execute("update pgq.queue set queue_switch_time = now() - interval '1 day'")
    verify(connection, *[n for (n,) in rows(connection, "select msg_id from pgmq.a_orders")])
    connection.execute("update pgmq.a_orders set archived_at = now() - interval '2 days'")
    connection.execute("update sluice.exported_page set archived_from = '-infinity'")
    call(
        connection,
        "sluice.set_queue_options('orders', '{\"archive_retention\": \"1 day\"}')",
        "sluice.drop_exported('orders')",
        "sluice.create_export('by_id', 'lake', '/lake of by_id', 'its id')",
        "sluice._release_partition('by_id', 'pgmq.a_by_id_default')",
        "pgq._maintain_positions(0)",
        "pgq._maintain_retry(0)",
        "sluice._maintain_ledgers(0)",
        "sluice.set_log_options('changes', '{\"max_lag_events\": 1}')",
        "sluice.fire_schedules()",
    )
    for _ in range(3):
        call(connection, "sluice.maintain()", "pgq.ticker()", "sluice.rotate()")
        connection.execute("update pgq.queue set queue_switch_time = now() - interval '1 day'")
    call(connection, "sluice.maintain_groups()", "sluice.after_restore()")
    table = value(connection, "select pgq.current_event_table('spare')")
    delay(connection, "spare")
    add_trigger(connection, table)
    call(connection, "pgq.maint_retry_events()")
    connection.execute(f"drop trigger refuse on {table}")
    call(connection, "pgq.maint_operations()", "pgq.maint_retry_events()")
    call(connection, "pgq.maint_rotate_tables_step1('spare')", "pgq.maint_rotate_tables_step2()")


def take_down(connection: psycopg.Connection) -> None:
    connection.execute("delete from pgq.subscription where sub_consumer = 1")
    call(
        connection,
        "pgq_coop.unregister_subconsumer('changes', 'coop', 'first', 1)",
        "pgq.unregister_consumer('changes', 'coop')",
        "sluice.drop_group('changes', 'mail')",
        "sluice.drop_capture('public.account', 'changes')",
        "pgq.drop_queue('changes', true)",
        "pgq.drop_queue('spare', true)",
        "pgmq.unbind_topic('order.*', 'orders')",
        "pgmq.disable_notify_insert('orders')",
        "pgmq.purge_queue('orders')",
        "sluice.drop_export('orders', 'lake')",
        "sluice.set_queue_options('orders', '{\"max_attempts\": null}')",
        'sluice.set_queue_options(\'limited\', \'{"rate": null, "key_concurrency": null, "when_waiting": null}\')',
        "sluice.set_queue_options('orders', '{\"deduplication_window\": null}')",
        "sluice.retire_schedules('shop', array[]::text[])",
        "sluice.unschedule('nightly')",
        "pgmq.drop_queue(queue_name) from pgmq.list_queues()",
    )
    assert value(connection, "select count(*) from pgmq.meta") == 0
    assert value(connection, "select count(*) from pgq.queue") == 0
