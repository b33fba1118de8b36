import psycopg
import pytest

from support import rows


def test_a_message_is_found_wherever_it_is(orders):
    assert rows(
        orders,
        "select msg_id, state, message ->> 'n', archived_at is not null, vt is null "
        "from sluice.get_messages('ORDERS', array[9, 7, 6, 5, 1, 1, 77])",
    ) == [
        (1, "archived", "1", True, False),
        (5, "dead", "5", False, True),
        (6, "in flight", "6", False, False),
        (7, "delayed", "7", False, False),
        (9, "visible", "9", False, False),
    ]


def test_no_ids_find_nothing(orders):
    assert rows(orders, "select * from sluice.get_messages('orders', '{}')") == []
    assert rows(orders, "select * from sluice.get_messages('orders', null)") == []


def test_dead_letters_of_other_queues_are_not_found(orders):
    assert rows(orders, "select * from sluice.get_messages('again', array[5])") == []


def test_an_unknown_queue_has_no_messages(connection):
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select * from sluice.get_messages('missing', array[1])")


@pytest.mark.slow
def test_finding_by_id_does_not_scan(large, buffers):
    large.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason) "
        "select 'large', n, 1, now(), 'r' from generate_series(400001, 420000) as n"
    )
    large.execute("analyze sluice.dead_letter")

    assert buffers("select * from sluice.get_messages('large', array[77, 222222, 410000])") < 40
    assert (
        len(rows(large, "select * from sluice.get_messages('large', array[77, 222222, 410000])"))
        == 3
    )
