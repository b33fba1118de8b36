"""pgmq.convert_archive_partitioned: a partitioned archive keeps its messages."""

import psycopg
import pytest

from support import rows, value


@pytest.fixture
def orders(connection):
    """A queue of 50 messages, the first 25 of them archived."""
    connection.execute("select pgmq.create('Orders')")
    connection.execute("select pgmq.send_batch('Orders', array_fill('1'::jsonb, array[50]))")
    connection.execute(
        "select pgmq.archive('Orders', array(select generate_series(1, 25))::bigint[])"
    )
    return connection


def partitions(connection):
    return rows(
        connection,
        "select partition_name, starts_at, ends_at from sluice.list_partitions('orders')",
    )


def notices_of(connection, statement):
    notices = []

    def note(diagnostic):
        notices.append(diagnostic.message_primary)

    connection.add_notice_handler(note)
    connection.execute(statement)
    connection.remove_notice_handler(note)
    return notices


def test_by_ids_what_is_archived_becomes_the_first_partition_and_no_row_moves(orders):
    where = "select pg_relation_filenode(tableoid::regclass) from pgmq.a_orders group by tableoid"
    before = rows(orders, where)

    orders.execute("select pgmq.convert_archive_partitioned('Orders', '10', '1000', 2)")

    assert partitions(orders) == [
        ("a_orders_PMINVALUE", "MINVALUE", "60"),
        ("a_orders_P60", "60", "70"),
        ("a_orders_P70", "70", "80"),
        ("a_orders_default", None, None),
    ]
    assert rows(orders, where) == before
    assert value(orders, "select count(*) from pgmq.a_orders") == 25
    orders.execute("select pgmq.send_batch('Orders', array_fill('1'::jsonb, array[20]))")
    orders.execute("select pgmq.archive('Orders', array[26, 70]::bigint[])")
    assert value(orders, 'select count(*) from only pgmq."a_orders_PMINVALUE"') == 26
    assert value(orders, 'select count(*) from only pgmq."a_orders_P70"') == 1
    with pytest.raises(psycopg.errors.UniqueViolation):
        orders.execute("insert into pgmq.a_orders (msg_id, vt) values (70, now())")


def test_by_time_what_is_archived_becomes_the_first_partition(orders):
    orders.execute("select pgmq.convert_archive_partitioned('Orders', '1 day', '30 days', 2)")

    (first, *ahead, default) = partitions(orders)
    assert (first[0], first[1], default) == (
        "a_orders_PMINVALUE",
        "MINVALUE",
        ("a_orders_default", None, None),
    )
    assert len(ahead) == 2
    assert value(orders, 'select count(*) from only pgmq."a_orders_PMINVALUE"') == 25
    orders.execute("select pgmq.archive('Orders', 26)")
    assert value(orders, "select count(*) from pgmq.a_orders where msg_id = 26") == 1
    orders.execute("set enable_seqscan = off")
    plan = rows(orders, "explain (costs off) select from pgmq.a_orders where msg_id = 26")
    assert [line for (line,) in plan if "Seq Scan" in line] == [], plan


def test_it_is_kept_in_order_by_maintenance_and_dropped_when_all_of_it_is_over(orders):
    orders.execute("select pgmq.convert_archive_partitioned('Orders', '10', '100', 1)")
    orders.execute("select pgmq.send_batch('Orders', array_fill('1'::jsonb, array[105]))")

    assert value(orders, "select count(*) from pgmq.a_orders") == 25
    orders.execute("select * from sluice.maintain()")
    assert value(orders, "select count(*) from pgmq.a_orders") == 25
    orders.execute("select pgmq.send_batch('Orders', array_fill('1'::jsonb, array[10]))")
    orders.execute("select * from sluice.maintain()")
    assert value(orders, "select count(*) from pgmq.a_orders") == 0


def test_an_archive_without_partitions_to_come_has_one_at_least(orders):
    orders.execute("select pgmq.convert_archive_partitioned('orders', '10', '100', 0)")

    assert [name for name, *_ in partitions(orders)] == [
        "a_orders_PMINVALUE",
        "a_orders_P60",
        "a_orders_default",
    ]


def test_converted_or_missing_archive_is_reported_in_pgmqs_words(orders):
    orders.execute("select pgmq.convert_archive_partitioned('Orders')")

    again = notices_of(orders, "select pgmq.convert_archive_partitioned('Orders')")
    nothing = notices_of(orders, "select pgmq.convert_archive_partitioned('nope')")

    assert again == ["Table a_orderss is already partitioned"]
    assert nothing == ["Table a_nopes does not exists"]


def test_rights_owner_and_roles_are_as_before(database, connection, role):
    connection.execute(f"grant sluice_admin to {role}")
    with psycopg.connect(database.url, user=role, autocommit=True) as creator:
        creator.execute("select pgmq.create('orders')")
    connection.execute("grant select on pgmq.a_orders to public")
    acl = (
        "select a.grantee::regrole::text, a.privilege_type from pg_class as c, aclexplode(c.relacl) as a "
        "where c.oid = 'pgmq.a_orders'::regclass order by 1, 2"
    )
    before = rows(connection, acl)

    connection.execute("select pgmq.convert_archive_partitioned('orders', '10', '100', 1)")

    assert rows(connection, acl) == before
    assert rows(
        connection,
        "select distinct pg_get_userbyid(relowner) from pg_class where relname ~ '^a_orders'",
    ) == [("sluice_owner",)]


@pytest.mark.parametrize(
    "added",
    [
        "create policy p on pgmq.a_orders using (true)",
        "create index on pgmq.a_orders (read_ct)",
        "create trigger t after insert on pgmq.a_orders for each row execute function suppress_redundant_updates_trigger()",
    ],
)
def test_objects_added_to_the_archive_that_would_be_lost_are_named(orders, added):
    orders.execute(added)

    with pytest.raises(
        psycopg.errors.ObjectNotInPrerequisiteState, match="has user-defined policies"
    ):
        orders.execute("select pgmq.convert_archive_partitioned('Orders', '1 day', '9 days')")

    assert partitions(orders) == []


def test_an_infinite_time_in_the_archive_is_named(orders):
    orders.execute("update pgmq.a_orders set archived_at = 'infinity' where msg_id = 3")

    with pytest.raises(
        psycopg.errors.ObjectNotInPrerequisiteState, match="archived_at is infinite"
    ):
        orders.execute("select pgmq.convert_archive_partitioned('Orders', '1 day', '9 days')")


def test_an_archive_without_a_queue_and_a_taken_name_are_refused(orders):
    orders.execute("select pgmq.create('orders_default')")
    with pytest.raises(psycopg.DatabaseError) as caught:
        orders.execute("select pgmq.convert_archive_partitioned('Orders')")
    assert caught.value.sqlstate == "QU002"

    orders.execute("delete from pgmq.meta where queue_name = 'Orders'")
    with pytest.raises(psycopg.errors.UndefinedObject, match="there is an archive, but no queue"):
        orders.execute("select pgmq.convert_archive_partitioned('Orders')")


@pytest.mark.parametrize("name", ["with space", "hyphen-ated", "n" * 47, "Größe"])
@pytest.mark.parametrize("interval", ["10", "1 day"])
def test_any_name_that_a_queue_can_have_will_do(connection, name, interval):
    connection.execute("select pgmq.create(%s)", (name,))

    connection.execute("select pgmq.convert_archive_partitioned(%s, %s, null, 1)", (name, interval))

    connection.execute("select pgmq.send(%s, '1'::jsonb)", (name,))
    assert value(connection, "select pgmq.archive(%s, 1)", name) is True
    assert value(connection, "select pgmq.drop_queue(%s)", name) is True
    assert rows(connection, "select relname from pg_class where relname ~ '^a_'") == []
