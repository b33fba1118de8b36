"""Logical replication: every table of ours has a replica identity, so updates and deletes work."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgsluice import schema
from support import rows, value, wait_until
from support.every_call import use_everything
from support.replication import (
    OUR_SCHEMAS,
    logical_server,
    make_everything,
    tables_without_identity,
)
from support.servers import TEMPLATE, VERSIONS, new_database

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
    with new_database(server, TEMPLATE) as database, database.connect() as connection:
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
    use_everything(published)

    assert missed(published) == set()
    found = changes(published)
    # Inserts, updates, deletes, and the truncation of segments and ledgers.
    assert all(found[kind] > 0 for kind in "IUDT"), found


@pytest.fixture(params=VERSIONS, ids=[f"pg{v}" for v in VERSIONS])
def publisher_and_subscriber(request, servers):
    """A publisher with two queues, and a subscriber with a copy of one archive table."""
    server = logical_server(servers, request.param)
    with (
        new_database(server, TEMPLATE) as first,
        new_database(server, "template0") as second,
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
