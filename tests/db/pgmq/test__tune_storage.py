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
