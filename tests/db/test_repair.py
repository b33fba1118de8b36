"""Repair of installations after schemas or tables were dropped: install, verify, adopt, uninstall."""

from __future__ import annotations

from itertools import combinations

import pytest
from click.testing import CliRunner

from pgsluice import schema
from pgsluice.cli.main import cli
from pgsluice.errors import NotInstalledError, SchemaError
from support import rows, value

SCHEMAS = ("pgmq", "pgq", "pgq_coop", "sluice")
SUBSETS = [names for size in (1, 2, 3) for names in combinations(SCHEMAS, size)]
USE = """
select pgmq.create('orders'); select pgmq.send('orders', '1');
select pgq.create_queue('audit'); select pgq.register_consumer('audit', 'copy');
select pgq.insert_event('audit', 'a', 'b');
select sluice.create_group('audit', 'desk');
select sluice.set_queue_options('orders', '{"archive_retention": "1 day"}');
"""


def drop(connection, names) -> None:
    connection.execute(f"drop schema {', '.join(names)} cascade")


def works(connection) -> None:
    """Send and read a message and an event."""
    connection.execute("select pgmq.create('orders'); select pgmq.send('orders', '2')")
    assert value(connection, "select count(*) from pgmq.read('orders', 9, 9)") >= 1
    if not rows(connection, "select from pgq.queue"):
        connection.execute("select pgq.create_queue('audit')")
    connection.execute("select pgq.insert_event('audit', 'a', 'b'); select pgq.ticker()")


@pytest.mark.slow
@pytest.mark.parametrize("names", SUBSETS, ids="-".join)
def test_dropped_schemas_are_created_again_and_the_others_keep_their_rows(connection, names):
    schema.install(connection, legacy=True)
    before = schema.fingerprint(connection)
    connection.execute(USE)
    drop(connection, names)

    lines = schema.verify(connection)
    assert all("pgsluice schema install" in line for line in lines)
    assert all(any(name in line for line in lines) for name in names if "sluice" not in names)
    with pytest.raises(SchemaError, match=f"{names[-1]}|sluice"):
        schema.adopt(connection)
    schema.install(connection)

    assert schema.verify(connection) == ()
    assert schema.fingerprint(connection) == before
    if "pgmq" not in names:
        assert value(connection, "select count(*) from pgmq.q_orders") == 1
    if "pgq" not in names:
        assert value(connection, "select count(*) from pgq.event_1") == 1
    works(connection)
    schema.uninstall(connection, drop_data=True)
    assert rows(connection, "select from pg_proc where proname ~ '^pgmq_'") == []


@pytest.mark.slow
@pytest.mark.parametrize("names", SUBSETS, ids="-".join)
def test_uninstall_drops_the_schemas_that_are_left(connection, names):
    schema.install(connection, legacy=True)
    connection.execute(USE)
    drop(connection, names)

    if set(names) < {"pgmq", "sluice"}:
        with pytest.raises(SchemaError, match="the schemas hold data"):
            schema.uninstall(connection)
    schema.uninstall(connection, drop_data=True)

    assert rows(connection, f"select from pg_namespace where nspname in {SCHEMAS}") == []
    assert rows(connection, "select from pg_proc where proname ~ '^pgmq_'") == []
    with pytest.raises(NotInstalledError):
        schema.uninstall(connection)
    schema.install(connection)
    works(connection)


def tables(connection) -> list[str]:
    return [
        name
        for (name,) in rows(
            connection,
            f"""select c.oid::regclass::text from pg_class as c
            where c.relnamespace::regnamespace::text in {SCHEMAS} and c.relkind in ('r', 'p')
              and c.relname !~ '^([qa]_|(event|tick)_[0-9])' order by 1""",
        )
    ]


def without_names(lines: list[str]) -> list[str]:
    """Leave out constraints of columns, which PostgreSQL 18 names after the first table that had them."""
    return [line for line in lines if " NOT NULL " not in line]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_table_is_created_again(connection):
    before = without_names(schema.fingerprint(connection))
    connection.execute(USE)
    for name in tables(connection):
        with connection.transaction(force_rollback=True):
            connection.execute(f"drop table {name} cascade")
            assert any(name in line for line in schema.missing(connection)), name

            schema.install(connection)

            assert schema.missing(connection) == (), name
            assert without_names(schema.fingerprint(connection)) == before, name


@pytest.mark.slow
def test_a_dropped_list_of_queues_is_made_from_their_tables(connection):
    connection.execute(USE)
    connection.execute("drop table pgmq.meta cascade; drop table pgq.origin")

    lines = schema.verify(connection)
    assert [line.split(";")[0] for line in lines if line.startswith("+table")] == [
        "+table pgmq.meta is missing: its rows are gone",
        "+table pgq.origin is missing: its rows are gone",
    ]
    schema.install(connection)

    assert schema.verify(connection) == ()
    assert rows(connection, "select queue_name from pgmq.meta") == [("orders",)]


def test_a_share_group_without_its_options_is_a_consumer_that_can_be_unregistered(connection):
    connection.execute(USE)
    warnings = []
    connection.add_notice_handler(lambda diagnostic: warnings.append(diagnostic.message_primary))
    drop(connection, ["sluice"])

    schema.install(connection)

    assert "share group desk of log audit is an ordinary consumer now" in warnings
    assert any("schema sluice is missing: its dead letters" in line for line in warnings)
    assert value(connection, "select pgq.unregister_consumer('audit', 'desk')") == 1
    assert value(connection, "select sluice.create_group('audit', 'desk')") is not None


def test_schemas_of_another_release_without_the_record_of_migrations_are_refused(connection):
    connection.execute(
        "alter table pgq.queue drop column queue_external_ticker cascade; drop schema sluice cascade"
    )

    with pytest.raises(
        SchemaError, match="column pgq.queue.queue_external_ticker of this release is missing"
    ):
        schema.install(connection)


def test_schemas_of_an_untrusted_role_are_not_taken_for_a_remaining_installation(connection, role):
    drop(connection, ["sluice"])
    connection.execute(f"alter schema pgmq owner to {role}")
    try:
        with pytest.raises(SchemaError, match="schema pgmq already exists"):
            schema.install(connection)
    finally:
        connection.execute(f"drop owned by {role} cascade")


@pytest.mark.slow
def test_commands_name_lost_contents(connection):
    url = connection.info
    drop(connection, ["pgmq"])
    dsn = f"host={url.host} port={url.port} user={url.user} dbname={url.dbname}"

    def run(*words: str):
        return CliRunner().invoke(cli, ["schema", *words, "--dsn", dsn])

    verified, adopted = run("verify"), run("adopt")
    assert verified.exit_code == 1
    assert "schema pgmq is missing: its queues, messages, archives" in verified.output
    assert adopted.exit_code != 0
    installed = run("install")
    assert installed.exit_code == 0
    assert "created again, empty: schema pgmq is missing: its queues, messages" in installed.output
    assert run("verify").exit_code == 0
