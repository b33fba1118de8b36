"""Managed servers: install, upgrade, adopt, use and uninstall without a superuser.

Amazon RDS, Azure Database and Cloud SQL give their customer a role with only CREATEDB and
CREATEROLE. These tests start a new server, so that this role creates our roles: PostgreSQL 16
changed what CREATEROLE allows.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from support import rows, value
from support.pgmq import upstream_sql
from support.servers import VERSIONS, make_server

OUR_ROLES = ("sluice_owner", "sluice_admin", "sluice_writer", "sluice_reader", "sluice_monitor")
OWNERS = """
select distinct pg_get_userbyid(n.nspowner)::text
from pg_namespace as n
where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
"""


@dataclass(frozen=True)
class Tenant:
    """A role of a managed server and the database that it owns."""

    server: EmbeddedServer
    role: str
    database: str

    def connect(self, role: str | None = None) -> psycopg.Connection:
        url = self.server.url(self.database).replace("postgres@", f"{role or self.role}@")
        return psycopg.connect(url, autocommit=True)


@pytest.fixture(params=VERSIONS, ids=[f"pg{version}" for version in VERSIONS])
def managed_server(request, servers, servers_folder):
    """A new server, on which pgsluice was never installed."""
    if request.param == "15":
        servers.get("15")  # skips the test if PostgreSQL 15 is not installed
    folder = Path(servers_folder) / "managed"
    folder.mkdir(mode=0o755, exist_ok=True)
    server = make_server(request.param, folder)
    server.start()
    try:
        with psycopg.connect(server.url(), autocommit=True) as admin:
            assert rows(admin, "select rolname from pg_roles where rolname ~ '^sluice_'") == []
        yield server
    finally:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def new_tenant(server: EmbeddedServer, role: str = "tenant", *, createrole: bool) -> Tenant:
    option = "createrole" if createrole else "nocreaterole"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"create role {role} login nosuperuser createdb {option}")
    url = server.url().replace("postgres@", f"{role}@")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create database shop_of_{role}")
    return Tenant(server, role, f"shop_of_{role}")


WORK_QUEUE = """
select pgmq.create('orders');
select pgmq.create_unlogged('fast');
select pgmq.create_partitioned('many', '1000', '5000');
select pgmq.create_fifo_index('orders');
select pgmq.enable_notify_insert('orders', 250);
select pgmq.bind_topic('orders.*', 'orders');
select sluice.set_queue_options('orders', '{"deduplication_window": "1 hour"}');
select sluice.set_queue_options('orders', '{"archive_retention": "7 days"}');
select sluice.set_queue_options('orders', '{"max_attempts": 3}');
select pgmq.send('orders', '{"n": 1}'::jsonb);
select pgmq.send('many', '{"n": 1}'::jsonb);
select pgmq.send_topic('orders.new', '{"n": 2}'::jsonb, null::jsonb, 0);
select pgmq.read('orders', 0, 10);
select pgmq.archive('orders', 1::bigint);
select pgmq.pop('many');
select pgmq.convert_archive_partitioned('orders', '1000', '5000');
select sluice.create_export('fast', 'lake', '/lake', 'id');
select pgmq.metrics_all();
select pgmq.purge_queue('fast');
select pgmq.drop_queue('fast');
select sluice.schedule('nightly', 'orders', '{}'::jsonb, '0 3 * * *');
select sluice.run_schedule('nightly');
"""
EVENT_LOG = """
select pgq.create_queue('changes');
select pgq.register_consumer('changes', 'audit');
select sluice.create_group('changes', 'workers');
create table account (id integer primary key, balance integer);
select sluice.capture('account', 'changes');
insert into account values (1, 100);
select pgq.insert_event('changes', 't', 'd');
select sluice.insert_event('changes', 't', 'd', delay => interval '1 hour');
select pgq.ticker();
select sluice.tick();
select sluice.claim('changes', 'workers', 10);
select pgq.next_batch('changes', 'audit');
select sluice.rotate();
select sluice.fire_schedules();
select sluice.maintain();
select sluice.maintain_groups();
select sluice.drop_capture('account', 'changes');
select pgq.unregister_consumer('changes', 'audit');
select sluice.drop_group('changes', 'workers');
select pgq.drop_queue('changes');
"""


def use_everything(connection: psycopg.Connection) -> None:
    """Run the statements one by one, so that a failure shows its statement."""
    for statement in (WORK_QUEUE + EVENT_LOG).split(";"):
        if statement.strip():
            connection.execute(statement)


@pytest.mark.slow
def test_a_role_with_createrole_makes_sluice_owner_and_does_everything(managed_server):
    tenant = new_tenant(managed_server, createrole=True)

    with tenant.connect() as connection:
        schema.install(connection)
        assert rows(connection, OWNERS) == [("sluice_owner",)]
        use_everything(connection)
        assert schema.install(connection) == ()
        assert schema.upgrade(connection) == ()
        assert schema.verify(connection) == ()

    # Later, in a new session.
    with tenant.connect() as connection:
        assert schema.verify(connection) == ()
        schema.uninstall(connection, drop_data=True)
        assert rows(connection, OWNERS) == []


@pytest.mark.slow
def test_application_roles_are_granted_by_a_role_with_createrole_and_used(managed_server):
    tenant = new_tenant(managed_server, createrole=True)
    with tenant.connect() as connection:
        schema.install(connection)
        for right in ("admin", "writer", "reader", "monitor"):
            connection.execute(f"create role app_{right} login")
            connection.execute(f"grant sluice_{right} to app_{right}")

    with tenant.connect("app_admin") as admin:
        admin.execute("select pgmq.create('orders')")
        admin.execute("select pgq.create_queue('changes')")
    with tenant.connect("app_writer") as writer:
        assert value(writer, "select pgmq.send('orders', '{}'::jsonb)") == 1
    with tenant.connect("app_reader") as reader:
        assert value(reader, "select msg_id from pgmq.read('orders', 30, 1)") == 1
        assert value(reader, "select pgmq.archive('orders', 1::bigint)") is True
    with tenant.connect("app_monitor") as monitor:
        assert value(monitor, "select total_messages from pgmq.metrics('orders')") == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            monitor.execute("select message from pgmq.a_orders")


def test_a_role_without_createrole_keeps_the_schemas_and_does_everything(managed_server):
    tenant = new_tenant(managed_server, createrole=False)
    notices: list[str] = []

    with tenant.connect() as connection:
        connection.add_notice_handler(lambda d: notices.append(d.message_primary))
        schema.install(connection)
        assert rows(connection, OWNERS) == [("tenant",)]
        use_everything(connection)
        assert schema.install(connection) == ()
        assert schema.verify(connection) == ()
        schema.uninstall(connection, drop_data=True)

    for role in OUR_ROLES:
        assert (
            f"role {role} is not created: tenant may not create roles; grants to it are skipped"
            in notices
        )


@pytest.mark.slow
@pytest.mark.parametrize("createrole", [True, False], ids=["createrole", "nocreaterole"])
def test_a_role_that_is_no_superuser_adopts_its_own_pgmq(managed_server, createrole):
    tenant = new_tenant(managed_server, createrole=createrole)
    with tenant.connect() as connection:
        connection.execute(upstream_sql())
        connection.execute("select pgmq.create('orders')")
        connection.execute("""select pgmq.send('orders', '{"n": 1}'::jsonb)""")

        schema.adopt(connection)

        assert schema.verify(connection) == ()
        assert value(connection, "select message->>'n' from pgmq.read('orders', 30, 1)") == "1"
        assert value(connection, "select pgmq.archive('orders', 1::bigint)") is True
        connection.execute("select pgmq.drop_queue('orders')")
        use_everything(connection)


@pytest.mark.slow
def test_roles_made_after_the_installation_get_their_grants_at_the_next_one(managed_server):
    tenant = new_tenant(managed_server, createrole=False)
    with tenant.connect() as connection:
        schema.install(connection)
        connection.execute("select pgmq.create('orders')")
        with psycopg.connect(managed_server.url(), autocommit=True) as admin:
            for role in OUR_ROLES:
                admin.execute(f"create role {role}")
            admin.execute("create role app_writer login; grant sluice_writer to app_writer")

        assert schema.install(connection) == ()
        connection.execute("select pgmq.create('orders')")

        assert rows(connection, OWNERS) == [("tenant",)]
        assert schema.verify(connection) == ()
    with tenant.connect("app_writer") as writer:
        assert value(writer, "select pgmq.send('orders', '{}'::jsonb)") == 1


@pytest.mark.slow
@pytest.mark.parametrize("createrole", [True, False], ids=["createrole", "nocreaterole"])
def test_a_second_tenant_of_the_server_installs_with_existing_roles(managed_server, createrole):
    first = new_tenant(managed_server, createrole=True)
    with first.connect() as connection:
        schema.install(connection)
    second = new_tenant(managed_server, "second", createrole=createrole)

    with second.connect() as connection:
        schema.install(connection)
        use_everything(connection)
        assert schema.install(connection) == ()
        assert schema.verify(connection) == ()
        # Before PostgreSQL 16, CREATEROLE allows granting oneself any role that is not a superuser.
        may_become_owner = createrole and connection.info.server_version < 160_000
        assert rows(connection, OWNERS) == [("sluice_owner" if may_become_owner else "second",)]
