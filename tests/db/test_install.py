"""Installation: repeated, concurrent, unprivileged, over foreign schemas, and by psql."""

import subprocess
import threading
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from pgsluice import schema
from pgsluice.cli.main import cli
from pgsluice.errors import NotInstalledError, PrivilegeError, SchemaError
from pgsluice.schema import texts
from support import rows, value


def errors_of_racing(database, installer, how_many=20):
    """Run the installer in several sessions at once; return the SQLSTATEs of the failed ones."""
    barrier = threading.Barrier(how_many)
    errors = []

    def run():
        with database.connect(autocommit=False) as connection:
            connection.execute("select 1")
            barrier.wait()
            try:
                installer(connection)
                connection.commit()
            except Exception as error:
                errors.append(getattr(error, "sqlstate", None) or repr(error))

    threads = [threading.Thread(target=run) for _ in range(how_many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return errors


def install_unlocked(connection):
    locked = texts.read("lock.sql")
    text = schema.print_sql()
    assert locked in text
    connection.execute(text.replace(locked, ""), prepare=False)


@pytest.mark.slow
def test_twenty_installers_at_once_all_succeed(empty_database):
    assert errors_of_racing(empty_database, schema.install) == []

    with empty_database.connect() as connection:
        assert schema.verify(connection) == ()


@pytest.mark.slow
def test_concurrent_installs_fail_without_the_lock(empty_database):
    errors = errors_of_racing(empty_database, install_unlocked)

    assert len(errors) >= 10
    assert set(errors) <= {"23505", "42P06", "42P07", "42710", "XX000", "40P01"}, errors


@pytest.mark.slow
def test_installing_twice_does_no_harm(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send('orders', '{}'::jsonb)")
    before = schema.fingerprint(connection)

    assert schema.install(connection) == ()

    assert schema.fingerprint(connection) == before
    assert value(connection, "select count(*) from pgmq.q_orders") == 1


@pytest.mark.slow
def test_an_installation_is_part_of_the_callers_transaction(empty_database):
    with empty_database.connect(autocommit=False) as connection:
        connection.execute("create table business (id int)")
        schema.install(connection)
        assert value(connection, "select pg_current_xact_id_if_assigned() is not null") is True
        connection.rollback()

        assert value(connection, "select to_regclass('business')") is None
        assert schema.installed_versions(connection) == ()


def test_an_installation_that_begins_the_callers_transaction_does_not_commit_it(empty_database):
    with empty_database.connect(autocommit=False) as connection:
        schema.install(connection)
        connection.rollback()

        assert schema.installed_versions(connection) == ()


@pytest.mark.slow
def test_the_callers_role_and_settings_are_restored_and_no_notice_is_raised(empty_database):
    notices = []
    with empty_database.connect(autocommit=False) as connection:
        connection.add_notice_handler(lambda diagnostic: notices.append(diagnostic.message_primary))
        connection.execute("set check_function_bodies = on")
        connection.execute("set client_min_messages = notice")
        before = rows(
            connection,
            "select current_user, current_setting('role'), current_setting('search_path')",
        )
        schema.install(connection)

        assert (
            rows(
                connection,
                "select current_user, current_setting('role'), current_setting('search_path')",
            )
            == before
        )
        assert value(connection, "show check_function_bodies") == "on"
        assert schema.install(connection) == ()
        schema.uninstall(connection)
        assert value(connection, "show client_min_messages") == "notice"
    assert notices == []


@pytest.mark.slow
def test_the_command_installs_the_tables_alone_and_then_the_rest(empty_database):
    functions = "select count(*) from pg_proc where pronamespace = 'pgmq'::regnamespace"
    command = ["schema", "install", "--dsn", empty_database.url]

    alone = CliRunner().invoke(cli, [*command, "--tables-only"])
    assert (alone.exit_code, alone.output.splitlines()[0]) == (
        0,
        "ran migration pgmq/0000_baseline",
    )
    with empty_database.connect() as connection:
        assert value(connection, functions) == 0

    rest = CliRunner().invoke(cli, command)
    assert rest.exit_code == 0
    assert "pgmq/0000_baseline" not in rest.output
    with empty_database.connect() as connection:
        assert value(connection, functions) > 40
        assert schema.verify(connection) == ()


@pytest.mark.slow
def test_psql_with_the_printed_file_gives_the_same_catalog(empty_database, connection, tmp_path):
    file = tmp_path / "pgsluice.sql"
    file.write_text(schema.print_sql(), encoding="utf-8")

    psql = Path(empty_database.server.bin_dir) / "psql"
    command = [psql, "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", file, empty_database.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    with empty_database.connect() as printed:
        assert schema.fingerprint(printed) == schema.fingerprint(connection)
        ledger = "select version, checksum, breaking from sluice.migration order by 1"
        assert rows(printed, ledger) == rows(connection, ledger)


def test_the_fingerprint_sees_a_difference(connection):
    before = schema.fingerprint(connection)
    changes = (
        "grant execute on function pgmq.pop(text, integer) to public",
        "comment on function pgmq.pop(text, integer) is 'x'",
        "alter table pgmq.meta add column x int",
        "alter function pgmq.pop(text, integer) owner to postgres",
    )
    for change in changes:
        with connection.transaction(force_rollback=True):
            connection.execute(change)
            assert schema.fingerprint(connection) != before, change


@pytest.mark.parametrize("name", ["pgmq", "pgq", "sluice"])
def test_a_schema_that_is_not_ours_is_left_alone(empty_database, name):
    with empty_database.connect() as connection:
        connection.execute(f"create schema {name}")
        connection.execute(f"create table {name}.precious (id int)")

        with pytest.raises(SchemaError) as caught:
            schema.install(connection)

        assert (
            f"schema {name} already exists and was not created by pgsluice; if it is PGMQ's or PgQ's, convert it"
            in str(caught.value)
        )
        assert rows(
            connection,
            "select nspname from pg_namespace where nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')",
        ) == [(name,)]


@pytest.fixture
def owned_database(empty_database, server, role):
    """An empty database owned by a role that is not a superuser."""
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"alter database {empty_database.name} owner to {role}")
        yield empty_database
        admin.execute(f"alter database {empty_database.name} owner to postgres")
    with empty_database.connect() as connection:
        connection.execute(f"drop owned by {role}")


def as_role(database, role):
    return psycopg.connect(database.url.replace("postgres@", f"{role}@"), autocommit=True)


def test_installing_without_the_right_to_create_schemas_names_the_grant(empty_database, role):
    with as_role(empty_database, role) as connection, pytest.raises(PrivilegeError) as caught:
        schema.install(connection)

    grant = f"grant create on database {empty_database.name} to {role}"
    assert str(caught.value) == (
        f"permission denied for database {empty_database.name}; let its owner run: {grant}"
    )
    with empty_database.connect() as admin:
        admin.execute(grant)
    with as_role(empty_database, role) as connection:
        assert schema.install(connection)
    with empty_database.connect() as admin:
        admin.execute(f"drop owned by {role} cascade")


@pytest.mark.slow
def test_the_owner_of_a_database_installs_without_being_superuser(owned_database, role):
    notices = []
    with as_role(owned_database, role) as connection:
        assert (
            value(
                connection,
                "select rolsuper or rolcreaterole from pg_roles where rolname = current_user",
            )
            is False
        )
        connection.add_notice_handler(lambda d: notices.append(d.message_primary))
        schema.install(connection)
        connection.execute("select pgmq.create('orders')")
        assert value(connection, "select pgmq.send('orders', '{}'::jsonb)") == 1
        connection.execute("select pgq.create_queue('changes')")
        assert value(connection, "select pgq.insert_event('changes', 't', 'd')") == 1
        assert schema.verify(connection) == ()
        assert (
            value(
                connection,
                "select nspowner::regrole::text from pg_namespace where nspname = 'pgmq'",
            )
            == role
        )

    assert set(notices) == {f"{role} cannot become sluice_owner and keeps the schemas itself"}


@pytest.mark.slow
def test_a_role_that_may_create_roles_hands_the_schemas_to_sluice_owner(
    owned_database, server, role
):
    with psycopg.connect(server.url(), autocommit=True) as admin:
        # Required if the roles exist already, as on a server shared with another installation.
        admin.execute(f"grant sluice_owner to {role} with admin option")
    with as_role(owned_database, role) as connection:
        schema.install(connection)
        connection.execute("select pgmq.create('orders')")
        assert schema.install(connection) == ()

    with owned_database.connect() as connection:
        owners = rows(
            connection,
            "select distinct nspowner::regrole::text from pg_namespace where nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')",
        )
    assert owners == [("sluice_owner",)]


def test_verify_names_what_differs(connection):
    assert schema.verify(connection) == ()

    connection.execute("grant execute on function pgmq.pop(text, integer) to public")
    connection.execute(
        "create or replace function pgmq.list_queues() returns setof pgmq.queue_record language sql as 'select null::pgmq.queue_record'"
    )

    differences = schema.verify(connection)
    assert {line.split("(")[0] for line in differences} == {
        "-function pgmq.pop", "+function pgmq.pop", "-function pgmq.list_queues", "+function pgmq.list_queues",
    }  # fmt: skip
    schema.install(connection)
    assert schema.verify(connection) == ()


@pytest.mark.slow
def test_verify_and_plan_change_nothing(connection):
    connection.execute("drop function pgmq.pop(text, integer)")
    before = schema.fingerprint(connection)

    assert [line.split("(")[0] for line in schema.plan(connection).changes] == [
        "+function pgmq.pop"
    ]

    assert schema.fingerprint(connection) == before


def test_a_migration_with_another_text_is_refused(connection):
    connection.execute(
        "update sluice.migration set checksum = 'other' where version = 'pgq/0000_baseline'"
    )

    with pytest.raises(
        SchemaError, match="migration pgq/0000_baseline was applied with another text"
    ):
        schema.install(connection)


def test_a_database_newer_than_the_package_is_refused(connection):
    connection.execute(
        "insert into sluice.migration (version, checksum) values ('pgmq/9999_future', 'x')"
    )

    with pytest.raises(
        SchemaError, match="newer than this release: it has pgmq/9999_future; upgrade pgsluice"
    ):
        schema.install(connection)


def test_a_database_of_a_development_version_is_refused_with_a_hint(connection):
    connection.execute(
        "update sluice.migration set version = 'pgmq/0001_queues' where version = 'pgmq/0000_baseline'"
    )

    for act in (schema.install, schema.upgrade, schema.require, schema.plan, schema.verify):
        with pytest.raises(
            SchemaError,
            match=r"schema pgmq is of a development version before 0\.1\.0, which cannot be upgraded; dump the data",
        ):
            act(connection)
    schema.uninstall(connection)
    assert schema.install(connection)


def test_a_migration_runs_once_after_the_baseline_and_before_the_functions(
    empty_database, monkeypatch
):
    released = texts.migrations()
    added = schema.Migration(
        "sluice/0001_flavours",
        "create table sluice.flavour as select count(*) as functions from pg_proc"
        " where pronamespace = 'sluice'::regnamespace;",
        "checksum",
        None,
    )
    with empty_database.connect() as connection:
        assert schema.install(connection) == tuple(m.version for m in released)
        monkeypatch.setattr(texts, "migrations", lambda **_: [*released, added])
        connection.execute("drop function sluice.ping_listener()")

        assert schema.plan(connection).migrations == (added,)
        assert schema.upgrade(connection) == ("sluice/0001_flavours",)
        assert schema.upgrade(connection) == ()

        before = "select functions from sluice.flavour"
        now = "select count(*) from pg_proc where pronamespace = 'sluice'::regnamespace"
        assert value(connection, now) == value(connection, before) + 1
        assert rows(connection, "select version from sluice.migration order by applied_at, 1") == [
            (m.version,) for m in [*released, added]
        ]


@pytest.mark.slow
def test_a_breaking_migration_must_be_allowed(connection, monkeypatch):
    known = texts.migrations()
    text = "create table sluice.future (id int);"
    breaking = schema.Migration(
        "sluice/9999_future", text, "checksum", "old clients do not know it"
    )
    monkeypatch.setattr(texts, "migrations", lambda **_: [*known, breaking])

    assert schema.plan(connection).breaking == (breaking,)
    with pytest.raises(SchemaError, match="sluice/9999_future: old clients do not know it"):
        schema.upgrade(connection)
    assert schema.upgrade(connection, allow_breaking=True) == ("sluice/9999_future",)
    assert (
        value(
            connection, "select breaking from sluice.migration where version = 'sluice/9999_future'"
        )
        == "old clients do not know it"
    )


def test_upgrade_and_verify_without_schema_are_errors(empty_database):
    with empty_database.connect() as connection:
        for act in (schema.upgrade, schema.verify, schema.uninstall):
            with pytest.raises(
                NotInstalledError, match="pgsluice is not installed in this database"
            ):
                act(connection)


@pytest.mark.slow
def test_uninstalling_asks_before_it_destroys_data(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgq.create_queue('changes')")

    with pytest.raises(SchemaError, match=r"hold data \(log changes, queue orders\)"):
        schema.uninstall(connection)
    assert value(connection, "select count(*) from pgmq.meta") == 1

    schema.uninstall(connection, drop_data=True)
    assert (
        rows(
            connection,
            "select nspname from pg_namespace where nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')",
        )
        == []
    )
    assert schema.install(connection) != ()


def test_uninstalling_asks_before_it_destroys_dead_letters_of_a_log_that_is_gone(connection):
    connection.execute(
        "insert into sluice.dead_letter (queue_name, consumer_name, msg_id, read_ct, enqueued_at, reason)"
        " values ('gone', 'g', 1, 1, now(), 'r')"
    )

    with pytest.raises(SchemaError, match=r"hold data \(dead letters of gone\)"):
        schema.uninstall(connection)


@pytest.mark.slow
def test_an_installation_killed_at_any_point_leaves_nothing(empty_database):
    text = schema.print_sql()
    for fraction in (0.1, 0.4, 0.7, 0.95):
        # Cut after a grant, as a semicolon at a line end may be inside a comment or a function.
        cut = text.rfind("$grant$;\n", 0, int(len(text) * fraction)) + len("$grant$;")
        connection = empty_database.connect(autocommit=False)
        connection.execute(text[:cut], prepare=False)
        with empty_database.connect() as killer:
            killer.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))
        with pytest.raises(psycopg.errors.AdminShutdown):
            connection.commit()
        connection.close()
    with empty_database.connect() as connection:
        assert schema.installed_versions(connection) == ()
        assert schema.install(connection) != ()
        assert schema.verify(connection) == ()


DEPENDENTS = """
create table public.account (id bigint primary key, n integer);
select pgq.create_queue('changes');
select sluice.capture('public.account', 'changes');
create view public.lengths as select queue_name from pgmq.metrics_all();
create function public.one() returns setof pgmq.message_record language sql as 'select null::pgmq.message_record';
create table public.follower (queue_name varchar references pgmq.meta (queue_name));
create table public.typed (message pgmq.message_record);
"""


def test_uninstalling_names_what_depends_on_the_schemas_and_asks(connection):
    connection.execute(DEPENDENTS)

    with pytest.raises(SchemaError, match="objects outside the schemas depend on them") as caught:
        schema.uninstall(connection, drop_data=True)

    message = str(caught.value)
    for name in (
        "view public.lengths", "function public.one()", " on public.account", "queue_name_fkey on public.follower",
        "table column public.typed.message",
    ):  # fmt: skip
        assert name in message, message
    assert value(connection, "select to_regclass('public.lengths') is not null")

    schema.uninstall(connection, drop_data=True, drop_dependents=True)
    assert value(connection, "select to_regclass('public.lengths') is null")
    assert value(connection, "select count(*) from public.account") == 0


@pytest.mark.slow
def test_uninstalling_without_dependents_needs_no_option(connection):
    schema.install(connection, legacy=True)
    connection.execute(
        "select pgmq.create_partitioned('orders'), pgmq.enable_notify_insert('orders')"
    )
    connection.execute(
        "select pgq.create_queue('changes'), sluice.set_queue_options('orders', '{\"fleet_concurrency\": 2, \"key_concurrency\": 1}')"
    )

    schema.uninstall(connection, drop_data=True)

    assert schema.installed_versions(connection) == ()
