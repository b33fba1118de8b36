"""sluice.partition_manager = 'pg_partman': the extension creates and maintains the partitions.

Covers _with_partman, _partman_create and _partman_forget.
"""

import psycopg
import pytest

from support import rows, value


@pytest.fixture
def partman(connection):
    """A session that uses pg_partman 4; skips the test where the server does not have it."""
    found = rows(
        connection,
        "select from pg_available_extension_versions where name = 'pg_partman' and version like '4.%%'",
    )
    if not found:
        pytest.skip("this server has no pg_partman 4: apt-get install postgresql-15-partman")
    connection.execute("create schema partman")
    connection.execute("create extension pg_partman schema partman")
    connection.execute(
        """grant usage, create on schema partman to sluice_owner;
        grant all on all tables in schema partman to sluice_owner;
        grant execute on all routines in schema partman to sluice_owner"""
    )
    connection.execute("set sluice.partition_manager = 'pg_partman'")
    return connection


def test_missing_extension_is_named(connection):
    connection.execute("set sluice.partition_manager = 'pg_partman'")

    for call in ("create_partitioned('orders')", "convert_archive_partitioned('plain')"):
        connection.execute("select pgmq.create('plain')")
        with pytest.raises(
            psycopg.errors.RaiseException, match="pg_partman is required for partitioned queues"
        ):
            connection.execute(f"select pgmq.{call}")


def test_another_manager_is_refused_and_an_empty_setting_is_none(connection):
    connection.execute("set sluice.partition_manager = 'postgres'")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="is 'postgres'"):
        connection.execute("select pgmq.create_partitioned('orders')")

    for setting in ("", "pgsluice"):
        connection.execute(f"set sluice.partition_manager = '{setting}'")
        connection.execute("select pgmq.create_partitioned('orders')")
    assert value(connection, "select count(*) from sluice.partitioned_table") == 2


@pytest.mark.parametrize(("interval", "retention"), [("10", "100"), ("1 day", "9 days")])
def test_the_extension_makes_and_keeps_the_partitions(partman, interval, retention):
    partman.execute("select pgmq.create_partitioned('orders', %s, %s, 3)", (interval, retention))

    assert rows(
        partman,
        "select parent_table, partition_interval, retention, premake from partman.part_config order by 1 desc",
    ) == [("pgmq.q_orders", interval, retention, 3), ("pgmq.a_orders", interval, retention, 3)]
    assert rows(partman, "select * from sluice.partitioned_table") == []
    partman.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[25]))")
    before = value(partman, "select count(*) from sluice.list_partitions('orders')")
    partman.execute("select partman.run_maintenance('pgmq.q_orders')")
    if interval == "10":
        assert value(partman, "select count(*) from sluice.list_partitions('orders')") > before
    assert len(rows(partman, "select * from pgmq.read('orders', 30, 100)")) == 25
    assert value(partman, "select default_partition_length from pgmq.metrics('orders')") == 0
    assert rows(partman, "select * from sluice.maintain()") == []


def test_drop_queue_leaves_nothing_of_it_with_the_extension(partman):
    partman.execute("select pgmq.create_partitioned('orders')")
    partman.execute("select pgmq.create('other')")

    partman.execute("select pgmq.drop_queue('orders')")
    partman.execute("select pgmq.drop_queue('other')")

    assert rows(partman, "select parent_table from partman.part_config") == []
    assert rows(partman, "select relname from pg_class where relname ~ '^template_pgmq'") == []


def test_a_plain_queue_is_dropped_by_a_role_without_rights_in_the_extension(
    database, partman, role
):
    partman.execute(f"grant sluice_admin to {role}")
    with psycopg.connect(database.url, user=role, autocommit=True) as owner:
        for create in ("create('plain')", "create_partitioned('ours')"):
            owner.execute(f"select pgmq.{create}")
        assert rows(owner, "select pgmq.drop_queue('plain'), pgmq.drop_queue('ours')") == [
            (True, True)
        ]


def test_partitions_managed_by_the_extension_are_left_alone(partman):
    partman.execute("select pgmq.create_partitioned('orders')")
    partman.execute("reset sluice.partition_manager")

    with pytest.raises(psycopg.errors.DuplicateTable) as caught:
        partman.execute("select pgmq.create_partitioned('orders')")
    assert "sluice.maintain() does not maintain" in caught.value.diag.message_detail


def test_an_archive_is_not_given_to_it(partman):
    partman.execute("select pgmq.create('plain')")

    with pytest.raises(
        psycopg.errors.FeatureNotSupported, match="cannot convert the archive of queue"
    ):
        partman.execute("select pgmq.convert_archive_partitioned('plain')")
