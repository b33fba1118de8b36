"""sluice.verify_exported, and the retention of unverified messages.

Also covers _maintain_retention, _drop_partitions, _release_partition, _require_export and
_unverified_sql.
"""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support import rows, value, wait_for_lock
from support.exports import archived, backlog, create_export, found, verify
from support.queue_options import set_queue_options


def verify_found(connection, ids, times, hashes):
    return connection.execute(
        "select * from sluice.verify_exported('orders', 'lake', %s, %s, %s)", [ids, times, hashes]
    ).fetchone()


def test_only_rows_equal_to_the_archive_are_verified(orders):
    create_export(orders)
    ids, times, hashes = found(orders, 1, 2, 3)

    verdict = verify_found(
        orders, [*ids, 99], [*times, times[0]], [hashes[0], hashes[0], hashes[2], hashes[0]]
    )

    assert verdict == (2, [2])
    assert backlog(orders) == [(2, 4, 2)]


@pytest.mark.parametrize(
    "change",
    [
        "message = '{}'",
        "message = null",
        "headers = null",
        "headers = '[\"\\n\"]'",
        "read_ct = 7",
        "vt = vt + interval '1 microsecond'",
        "vt = 'infinity'",
        "last_read_at = now()",
        "archived_at = archived_at - interval '1 microsecond'",
    ],
)
def test_a_difference_in_any_column_is_found(orders, change):
    create_export(orders)
    before = found(orders, 1, 2)
    orders.execute(f"update pgmq.a_orders set {change} where msg_id = 2")

    assert verify_found(orders, *before) == (1, [2])


def test_text_of_any_kind_has_the_same_hash_here_and_there(orders):
    orders.execute(
        "update pgmq.a_orders set message = %s where msg_id = 1", [r'{"a\nb": "Ω🦆\u0001\"\\"}']
    )
    orders.execute("update pgmq.a_orders set message = 'null', headers = null where msg_id = 2")
    orders.execute(
        "update pgmq.a_orders set vt = '1969-12-31 23:59:59.999999+00', last_read_at = '0001-01-01' where msg_id = 3"
    )
    create_export(orders)

    assert verify(orders, 1, 2, 3) == (3, [])


def test_a_message_of_an_earlier_queue_with_the_same_id_is_another_message(orders):
    create_export(orders)
    ids, times, hashes = found(orders, 1)

    assert verify_found(orders, ids * 2, [times[0] - 1, times[0]], [b"other", *hashes]) == (1, [])
    assert verify_found(orders, [2], [times[0] - 1], [b"other"]) == (0, [])


def test_rows_archived_below_verified_ids_are_not_verified(database, orders):
    create_export(orders)
    with database.connect(autocommit=False) as late:
        late.execute("select pgmq.archive('orders', 8)")
        orders.execute("select pgmq.archive('orders', 9)")
        verify(orders, 1, 2, 3, 4, 8, 9)

    assert archived(orders) == [1, 2, 3, 4, 8, 9]
    assert value(orders, "select sluice.drop_exported('orders')") == 5
    assert archived(orders) == [8]


def test_retention_waits_until_every_export_has_verified(orders):
    for name in ("lake", "backup"):
        create_export(orders, name)
    set_queue_options(orders, "orders", archive_retention="0")
    maintain = "select detail from sluice._maintain_retention(%s)"

    verify(orders, 1, 2, 3)
    assert rows(orders, maintain, 100) == []
    verify(orders, 3, 2, 4, export="backup")

    assert rows(orders, maintain, 1) == [("1 archived messages deleted; the next call goes on",)]
    assert rows(orders, maintain, 100) == [("1 archived messages deleted",)]
    assert rows(orders, maintain, 100) == []
    assert archived(orders) == [1, 4]
    assert value(orders, "select count(*) from sluice.exported_page") == 2


def test_retention_takes_of_what_is_verified_only_what_is_old_enough(orders):
    create_export(orders)
    orders.execute(
        "update pgmq.a_orders set archived_at = now() - interval '1 day' where msg_id in (2, 3)"
    )
    set_queue_options(orders, "orders", archive_retention="1 hour")
    verify(orders, 1, 2)

    orders.execute("select * from sluice._maintain_retention()")
    assert archived(orders) == [1, 3, 4]
    # An old row that is verified after its page was checked.
    verify(orders, 3)
    orders.execute("select * from sluice._maintain_retention()")
    assert archived(orders) == [1, 4]


def test_locked_row_stays_verified_for_the_next_call(database, orders):
    create_export(orders)
    verify(orders, 1, 2)
    with database.connect(autocommit=False) as other:
        other.execute("select from pgmq.a_orders where msg_id = 1 for update")

        assert value(orders, "select sluice.drop_exported('orders')") == 1

    assert value(orders, "select sluice.drop_exported('orders')") == 1
    assert archived(orders) == [3, 4]


def test_a_mark_does_not_outlive_its_message(database, orders):
    create_export(orders)
    verify(orders, 1, 2)
    again = found(orders, 1, 2)
    with (
        database.connect(autocommit=False) as dropping,
        database.connect() as verifying,
        ThreadPoolExecutor(1) as pool,
    ):
        dropping.execute("select sluice.drop_exported('orders')")
        future = pool.submit(verify_found, verifying, *again)
        wait_for_lock(orders, verifying)
        dropping.commit()

    assert future.result() == (0, [])
    assert rows(orders, "select * from sluice.exported_page") == []


@pytest.mark.parametrize("interval", ["10", "1 day"])
def test_a_partition_of_an_archive_stays_until_all_of_it_is_verified(connection, interval):
    retention = "20" if interval == "10" else "2 days"
    connection.execute("select pgmq.create_partitioned('parts', %s, %s, 1)", [interval, retention])
    if interval == "1 day":
        connection.execute(
            "create table pgmq.a_old partition of pgmq.a_parts for values from ('2020-01-01') to ('2020-01-02')"
        )
        connection.execute(
            "alter table pgmq.a_old owner to sluice_owner"
        )  # maintenance drops only its own tables
    connection.execute(
        "insert into pgmq.a_parts (msg_id, vt, archived_at) "
        "select n, now(), '2020-01-01 12:00' from generate_series(0, 12) as n"
    )
    connection.execute("select pgmq.send_batch('parts', array_fill('1'::jsonb, array[100]))")
    for name in ("lake", "backup"):
        create_export(connection, name, "parts")

    def kept():
        for _ in range(4):
            connection.execute("select * from sluice.maintain()")
        return archived(connection, "parts")

    everything = list(range(13))
    assert kept() == everything
    verify(connection, *everything, queue_name="parts")
    assert kept() == everything
    verify(connection, *range(1, 13), queue_name="parts", export="backup")
    assert kept() == (list(range(10)) if interval == "10" else everything)
    verify(connection, 0, queue_name="parts", export="backup")
    assert kept() == []
    assert rows(connection, "select * from sluice.exported_page") == []


def test_only_an_admin_verifies_and_drops(orders, as_member):
    create_export(orders)
    ids, times, hashes = found(orders, 1)
    query = (
        f"select verified, different::text from sluice.verify_exported('orders', 'lake', array[{ids[0]}]::bigint[],"
        f" array[{times[0]}]::bigint[], array['\\x{hashes[0].hex()}']::bytea[])"
    )

    assert as_member("sluice_admin", query) == [(1, "{}")]
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
