from pgsluice import schema
from support import value


def identity(connection, table):
    return value(connection, "select relreplident from pg_class where oid = %s::regclass", table)


def test_a_table_without_a_primary_key_has_the_whole_row_as_its_replica_identity(connection):
    connection.execute("create table pgmq.q_foreign (msg_id bigint)")

    connection.execute("select pgmq._tune_storage('pgmq.q_foreign')")

    assert identity(connection, "pgmq.q_foreign") == "f"


def test_a_table_with_a_primary_key_keeps_it_as_its_replica_identity(connection):
    connection.execute("select pgmq.create('orders')")

    connection.execute("select pgmq._tune_storage('pgmq.q_orders')")

    assert identity(connection, "pgmq.q_orders") == "d"


def test_a_replica_identity_that_a_user_chose_stays(connection):
    connection.execute("create table pgmq.q_foreign (msg_id bigint not null unique)")
    connection.execute(
        "alter table pgmq.q_foreign replica identity using index q_foreign_msg_id_key"
    )

    connection.execute("select pgmq._tune_storage('pgmq.q_foreign')")

    assert identity(connection, "pgmq.q_foreign") == "i"


def options(connection, table):
    return value(connection, "select reloptions from pg_class where oid = %s::regclass", table)


OURS = [
    "autovacuum_vacuum_threshold=1000",
    "autovacuum_vacuum_scale_factor=0.01",
    "autovacuum_vacuum_cost_delay=0",
]


def test_queues_and_their_partitions_are_created_with_autovacuum_settings(connection):
    connection.execute("select pgmq.create('orders'), pgmq.create_unlogged('sessions')")
    connection.execute("select pgmq.create_partitioned('events', '100', '1000')")

    for table in ("pgmq.q_orders", "pgmq.q_sessions", "pgmq.q_events_default"):
        assert options(connection, table) == OURS
    assert options(connection, "pgmq.a_orders") is None


def test_an_upgrade_sets_them_and_keeps_what_a_user_set(connection):
    connection.execute("select pgmq.create('orders'), pgmq.create('mine')")
    connection.execute(
        """alter table pgmq.q_orders reset (
            autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay
        )"""
    )
    connection.execute(
        """alter table pgmq.q_mine reset (
            autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay
        )"""
    )
    connection.execute("alter table pgmq.q_mine set (autovacuum_vacuum_threshold = 7)")

    schema.install(connection)

    assert options(connection, "pgmq.q_orders") == OURS
    assert options(connection, "pgmq.q_mine") == ["autovacuum_vacuum_threshold=7"]
