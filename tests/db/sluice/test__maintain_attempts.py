import psycopg
import pytest

from support import rows, value

LEFT = "select queue_name, msg_id from sluice.attempt order by 1, 2"


@pytest.fixture
def failed(connection):
    """Failed messages 1 to 6 of `Orders` and `mail`, due for a check; the odd ones are removed."""
    for name in ("Orders", "mail"):
        connection.execute("select pgmq.create(%s)", [name])
        connection.execute(
            "select pgmq.send_batch(%s, array_agg('1'::jsonb)) from generate_series(1, 6)", [name]
        )
        connection.execute("select pgmq.read(%s, 30, 6)", [name])
        connection.execute(
            "select sluice.fail(%s, jsonb_agg(jsonb_build_object('msg_id', n, 'read_ct', 1))) from generate_series(1, 6) as n",
            [name],
        )
        connection.execute("select pgmq.archive(%s, array[1, 3]::bigint[])", [name])
        connection.execute("select pgmq.delete(%s, 5)", [name])
    make_due(connection)
    return connection


def make_due(connection):
    connection.execute("update sluice.attempt set check_at = now() - msg_id * interval '1 minute'")


def removed(connection, rows_max=5000):
    """Return the reported number of removed rows, by queue."""
    steps = rows(connection, "select * from sluice._maintain_attempts(%s)", rows_max)
    assert {(task, done) for task, _, done, _ in steps} <= {("attempts", True)}
    return {queue_name: int(detail.split()[0]) for _, queue_name, _, detail in steps}


def test_rows_of_messages_that_are_gone_are_removed_and_no_others(failed):
    assert removed(failed) == {"mail": 3, "orders": 3}
    assert rows(failed, LEFT) == [(name, n) for name in ("mail", "orders") for n in (2, 4, 6)]

    assert removed(failed) == {}


def test_a_row_of_an_earlier_message_of_the_same_id_goes(failed):
    failed.execute("update sluice.attempt set enqueued_at = '2026-01-01' where msg_id = 2")

    assert removed(failed) == {"mail": 4, "orders": 4}


def test_each_call_checks_a_bounded_number_oldest_first(failed):
    assert removed(failed, 4) == {"mail": 1, "orders": 1}  # 6 and 5 of each
    assert removed(failed, 4) == {"mail": 1, "orders": 1}  # 4 and 3
    assert removed(failed, 4) == {"mail": 1, "orders": 1}


def test_remaining_attempts_are_checked_again_after_the_same_time(failed):
    failed.execute(
        "update sluice.attempt set first_failed_at = now() - case msg_id when 2 then '1 s' when 4 then '1 h' else '9 days' end::interval"
    )

    removed(failed)

    assert rows(
        failed,
        "select round(extract(epoch from check_at - now()) / 60) from sluice.attempt where queue_name = 'mail' order by msg_id",
    ) == [(1,), (60,), (1440,)]


def test_rows_of_a_queue_without_a_table_go(failed):
    failed.execute("drop table pgmq.q_orders cascade")

    assert removed(failed) == {"mail": 3, "orders": 6}


def test_concurrent_calls_share_the_work_without_blocking(database, failed):
    with database.connect(autocommit=False) as first, database.connect() as second:
        second.execute("set lock_timeout = '100ms'")
        first.execute("select * from sluice.attempt where msg_id = 3 for update")
        assert removed(second) == {"mail": 2, "orders": 2}


def test_locked_queue_is_skipped_and_delays_no_other(database, failed):
    with database.connect(autocommit=False) as session:
        session.execute("lock table pgmq.q_mail in access exclusive mode")

        steps = rows(failed, "select queue_name, done from sluice._maintain_attempts() order by 1")
        assert steps == [("mail", False), ("orders", True)]
        assert rows(failed, "select * from sluice._maintain_attempts()") == []

    make_due(failed)
    assert removed(failed) == {"mail": 3}


def test_it_finds_rows_and_messages_by_index(connection, failed, buffers):
    connection.execute(
        "insert into pgmq.q_mail (vt, message) select now(), '1' from generate_series(1, 50000)"
    )
    connection.execute(
        "insert into sluice.attempt (queue_name, msg_id, enqueued_at, read_ct, state, attempts, check_at) "
        "select 'mail', n, now(), 1, 'begun', 1, now() + interval '1 h' from generate_series(10, 50000) as n"
    )
    connection.execute("analyze pgmq.q_mail, sluice.attempt")

    assert buffers("select * from sluice._maintain_attempts(4)") < 250


def test_it_is_a_step_of_maintenance_for_an_admin_without_being_superuser(failed, as_member):
    query = "select queue_name from sluice.maintain() where task = 'attempts'"

    assert sorted(as_member("sluice_admin", query)) == [("mail",), ("orders",)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", "select * from sluice._maintain_attempts()")


def test_purging_or_dropping_a_queue_forgets_its_rows_at_once(failed):
    failed.execute("select pgmq.purge_queue('ORDERS')")
    assert {name for name, _ in rows(failed, LEFT)} == {"mail"}

    failed.execute("select pgmq.drop_queue('mail')")
    assert rows(failed, LEFT) == []


def test_a_rejected_message_has_its_attempts_among_the_dead_letters(failed):
    failed.execute("update pgmq.q_mail set vt = now()")
    failed.execute("select pgmq.read('mail', 30, 9)")
    failed.execute("select sluice.begin_attempts('mail', '{4}', '{2}', 'w')")
    failed.execute("select pgmq.send('mail', '7')")
    failed.execute("select pgmq.read('mail', 30, 9)")
    for claim in ((2, 2), (4, 2), (7, 1)):
        assert value(failed, "select sluice.reject('mail', %s, %s, 'bad')", *claim)

    letters = "select msg_id, attempts, first_failed_at is null from sluice.dead_letter order by 1"
    assert rows(failed, letters) == [(2, 2, False), (4, 2, False), (7, None, True)]
