import pytest
from psycopg import errors

from support import rows, value
from support.queue_options import set_queue_options


@pytest.fixture
def expired(connection):
    """The queues `a` and `b`, each with ten archived messages, six older than its retention."""
    for name in ("a", "b"):
        connection.execute("select pgmq.create(%s)", [name])
        set_queue_options(connection, name, archive_retention="1 hour")
        connection.execute(
            f"insert into pgmq.a_{name} (msg_id, vt, archived_at) "
            "select n, now(), now() - make_interval(mins => 125 - n * 10) from generate_series(1, 10) as n"
        )
    return connection


def maintain(connection, rows_max=10000):
    found = sorted(rows(connection, "select * from sluice._maintain_retention(%s)", rows_max))
    assert {task for task, *_ in found} <= {"retention"}
    return [row[1:] for row in found]


def deleted(name, count, *, more=False):
    detail = f"{count} archived messages deleted"
    return (name, True, f"{detail}; the next call goes on" if more else detail)


def left(connection, name):
    return [row[0] for row in rows(connection, f"select msg_id from pgmq.a_{name} order by 1")]


def test_only_rows_older_than_the_retention_are_removed(expired):
    expired.execute("select pgmq.send('a', '{}'::jsonb)")

    assert maintain(expired) == [deleted("a", 6), deleted("b", 6)]
    assert left(expired, "a") == left(expired, "b") == [7, 8, 9, 10]
    assert maintain(expired) == []
    assert value(expired, "select count(*) from pgmq.q_a") == 1


def test_an_archive_without_a_retention_is_kept(expired):
    set_queue_options(expired, "a", archive_retention=None)

    assert maintain(expired) == [deleted("b", 6)]
    assert len(left(expired, "a")) == 10


def test_a_call_deletes_at_most_what_it_may_the_oldest_first_and_says_that_there_is_more(expired):
    set_queue_options(expired, "b", archive_retention=None)

    assert maintain(expired, 4) == [deleted("a", 4, more=True)]
    assert left(expired, "a") == [5, 6, 7, 8, 9, 10]
    assert maintain(expired, 4) == [deleted("a", 2)]


def test_the_limit_is_for_all_queues_together_and_each_gets_its_turn(expired):
    first = set()
    for _ in range(40):
        with expired.transaction(force_rollback=True):
            (done,) = maintain(expired, 3)
        assert done == deleted(done[0], 3, more=True)
        first.add(done[0])

    # A fixed order would always serve the same queue.
    assert first == {"a", "b"}


def test_locked_rows_are_left_to_the_next_call(database, expired):
    set_queue_options(expired, "b", archive_retention=None)
    with database.connect(autocommit=False) as other:
        other.execute("select from pgmq.a_a where msg_id in (1, 2) for update")
        expired.execute("set lock_timeout = '100ms'")

        assert maintain(expired) == [deleted("a", 4)]

    assert left(expired, "a") == [1, 2, 7, 8, 9, 10]
    assert maintain(expired) == [deleted("a", 2)]


def test_archive_being_altered_is_skipped_without_blocking(database, expired):
    with database.connect(autocommit=False) as other:
        other.execute("lock table pgmq.a_a in access exclusive mode")

        assert maintain(expired) == [
            ("a", False, "the archive is in use; the next call tries again"),
            deleted("b", 6),
        ]

    assert maintain(expired) == [deleted("a", 6)]


def test_an_archive_that_cannot_be_cleaned_is_named_and_does_not_stop_the_others(expired):
    expired.execute("create table public.note (msg_id bigint references pgmq.a_a)")
    expired.execute("insert into public.note values (3)")
    expired.execute("select pgmq.create('c')")
    set_queue_options(expired, "c", archive_retention="1 hour")
    expired.execute("drop table pgmq.a_c")

    (kept, gone, missing) = maintain(expired)
    assert (kept[:2], gone, missing) == (
        ("a", False),
        deleted("b", 6),
        ("c", False, 'relation "pgmq.a_c" does not exist'),
    )
    assert 'violates foreign key constraint "note_msg_id_fkey"' in kept[2]
    assert len(left(expired, "a")) == 10


@pytest.mark.slow
def test_a_step_on_a_large_archive_costs_what_it_deletes(large, buffers):
    age = value(large, "select (clock_timestamp() - '2026-01-03 20:00+00')::text")
    set_queue_options(large, "large", archive_retention=age)
    whole = value(large, "select pg_relation_size('pgmq.a_large') / 8192")

    touched = buffers("select * from sluice._maintain_retention(100)")

    assert touched < 1000 < whole
    assert value(large, "select count(*) from pgmq.a_large") == 100_000 - 200


def test_only_an_admin_maintains_without_being_superuser(expired, as_member):
    query = "select * from sluice._maintain_retention()"

    assert len(as_member("sluice_admin", query)) == 2
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(errors.InsufficientPrivilege):
            as_member(member_of, query)
