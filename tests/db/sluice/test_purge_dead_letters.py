import psycopg
import pytest

from support import rows, value


@pytest.fixture
def letters(connection):
    """Dead letters 1 to 6 of `orders`, each a day older than the last, and 7 of another queue."""
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason, dead_at) "
        "select case n when 7 then 'other' when 1 then 'Orders' else 'orders' end, n, 1, now(), 'r', "
        "now() - make_interval(days => n) from generate_series(1, 7) as n"
    )
    return connection


def left(connection):
    return [
        row[0]
        for row in rows(connection, "select dead_letter_id from sluice.dead_letter order by 1")
    ]


def test_the_oldest_go_first_in_steps(letters):
    purge = "select sluice.purge_dead_letters('ORDERS', interval '2.5 days', qty => 3)"

    assert value(letters, purge) == 3
    assert left(letters) == [1, 2, 3, 7]
    assert value(letters, purge) == 1
    assert left(letters) == [1, 2, 7]
    assert value(letters, purge) == 0


def test_purge_without_age_removes_all_and_ids_only_of_the_queue(letters):
    purge = "select sluice.purge_dead_letters('orders', dead_letter_ids => '{1, 3, 7, 77}')"
    assert value(letters, purge) == 2

    assert value(letters, "select sluice.purge_dead_letters('orders', '0')") == 4
    assert left(letters) == [7]


def test_letters_locked_by_a_redrive_are_skipped(database, letters):
    letters.execute("select pgmq.create('orders')")
    with database.connect(autocommit=False) as session:
        session.execute("select sluice.redrive('orders', '{1, 2}')")
        letters.execute("set lock_timeout = '10s'")

        assert value(letters, "select sluice.purge_dead_letters('orders', '0')") == 4
        session.rollback()

    assert left(letters) == [1, 2, 7]


@pytest.mark.parametrize(("arguments", "code"), [("", "22004"), (", '0', '{1}'", "22023")])
def test_neither_or_both_is_an_error(letters, arguments, code):
    with pytest.raises(psycopg.Error) as caught:
        letters.execute(f"select sluice.purge_dead_letters('orders'{arguments})")

    assert caught.value.sqlstate == code
    assert caught.value.diag.message_primary == "it is not clear which dead letters to delete"
    assert len(left(letters)) == 7


def test_a_step_costs_what_it_deletes(connection, buffers):
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason) "
        "select 'q', n, 1, now(), 'r' from generate_series(1, 50000) as n"
    )
    connection.execute("analyze sluice.dead_letter")

    assert buffers("select sluice.purge_dead_letters('q', '0', qty => 10)") < 200
    assert buffers("select sluice.purge_dead_letters('q', '1 day')") < 50


def test_only_an_admin_purges_without_being_superuser(letters, as_member):
    query = "select sluice.purge_dead_letters('orders', '0')"

    assert as_member("sluice_admin", query) == [(6,)]
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
