import itertools
import subprocess
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from conftest import TEMPLATE, VERSIONS, _new_database
from support import rows, value
from support_epoch import EPOCH, go_to_the_end_of_an_epoch
from support_log import tick


@pytest.fixture(params=VERSIONS, ids=[f"pg{v}" for v in VERSIONS])
def old_and_new(request, servers):
    """A database on a server with high transaction ids, and an empty one on a server with low ones."""
    old = servers.get(request.param, "epoch")
    with psycopg.connect(old.url(), autocommit=True) as connection:
        late = value(connection, "select pg_current_xact_id()::text::bigint") > EPOCH << 32
    if not late:
        go_to_the_end_of_an_epoch(old)
    new = servers.get(request.param)
    database_on = contextmanager(_new_database)
    with database_on(old, TEMPLATE) as first, database_on(new, "template0") as second:
        yield first, second


def dump_and_restore(old, new):
    bin_dir = Path(old.server.bin_dir)
    dump = subprocess.run(
        [bin_dir / "pg_dump", "--format=custom", old.url], check=True, capture_output=True
    )
    subprocess.run(
        [bin_dir / "pg_restore", "--exit-on-error", "--dbname", new.url],
        input=dump.stdout,
        check=True,
        capture_output=True,
    )


def insert(connection, data):
    connection.execute("select pgq.insert_event('changes', 't', %s)", (data,))


def next_batch(connection, consumer):
    return value(connection, "select pgq.next_batch('changes', %s)", consumer)


def events(connection, batch):
    return [
        data
        for (data,) in rows(
            connection, "select ev_data from pgq.get_batch_events(%s) order by ev_id", batch
        )
    ]


def consume(connection, consumer):
    """The events of each batch up to the last tick, as far as there are any."""
    batches = []
    while (batch := next_batch(connection, consumer)) is not None:
        batches.append(events(connection, batch))
        connection.execute("select pgq.finish_batch(%s)", (batch,))
    return batches


@pytest.fixture
def log(old_and_new):
    """Consumers at different places, one with an open batch, one with an event to repeat; late transactions between."""
    old, _ = old_and_new
    with (
        old.connect() as connection,
        old.connect(autocommit=False) as early,
        old.connect(autocommit=False) as late,
    ):
        connection.execute("select pgq.create_queue('changes')")
        connection.execute(
            "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0', queue_rotation_period = '0'"
        )
        for consumer in ("behind", "inside", "between", "ahead"):
            connection.execute("select pgq.register_consumer('changes', %s)", (consumer,))
        insert(early, "early")
        insert(late, "late")
        insert(connection, "one")
        tick(connection)
        batch = next_batch(connection, "between")
        assert events(connection, batch) == ["one"]
        connection.execute(
            "select pgq.event_retry(%s, ev_id, 0) from pgq.get_batch_events(%s)", (batch, batch)
        )
        connection.execute("select pgq.finish_batch(%s)", (batch,))
        insert(connection, "two")
        early.commit()
        tick(connection)
        assert consume(connection, "ahead") == [["one"], ["early", "two"]]
        next_batch(connection, "inside")
        connection.execute("select * from sluice.rotate()")
        insert(connection, "three")
        late.commit()
        yield
        insert(connection, "four")


def test_a_restored_log_delivers_what_it_would_have_delivered_where_it_was(old_and_new, log):
    old, new = old_and_new
    dump_and_restore(old, new)

    with new.connect() as connection:
        with pytest.raises(psycopg.Error, match="Invalid PgQ state") as caught:
            connection.execute("select pgq.ticker('changes')")
        assert "sluice.after_restore()" in caught.value.diag.message_hint
        assert rows(connection, "select * from sluice.after_restore()") == [("changes", 5)]

    delivered = []
    for database in old_and_new:
        with database.connect() as connection:
            open_batch = next_batch(connection, "inside")
            assert events(connection, open_batch) == ["one"]
            tick(connection)
            assert value(connection, "select pgq.maint_retry_events()") == 1
            tick(connection)
            delivered.append(
                {
                    name: sorted(itertools.chain(*consume(connection, name)))
                    for name in ("behind", "inside", "between", "ahead")
                }
            )
    assert delivered[1] == delivered[0]
    assert delivered[1] == {
        "behind": ["early", "late", "one", "three", "two"],
        "inside": ["early", "late", "one", "three", "two"],
        "between": ["early", "late", "one", "three", "two"],
        "ahead": ["late", "three"],
    }


def test_a_repaired_log_goes_on_and_is_repaired_once(old_and_new, log):
    old, new = old_and_new
    dump_and_restore(old, new)
    with new.connect() as connection:
        connection.execute("select * from sluice.after_restore('changes')")

        with pytest.raises(psycopg.Error, match="event log 'changes' needs no repair") as caught:
            connection.execute("select * from sluice.after_restore('changes')")
        assert caught.value.sqlstate == "PQ004"
        assert rows(connection, "select * from sluice.after_restore()") == []

        insert(connection, "new")
        tick(connection)
        assert sorted(itertools.chain(*consume(connection, "ahead"))) == ["late", "new", "three"]
        for consumer in ("behind", "inside", "between"):
            consume(connection, consumer)
        actions = rows(connection, "select action from sluice.rotate() where segment = 0")
        assert actions[0] == ("reclaimed",)


def test_without_the_repair_events_would_not_come(old_and_new, log):
    old, new = old_and_new
    dump_and_restore(old, new)
    with new.connect() as connection:
        # The ticker's refusal taken away.
        connection.execute(
            """create or replace function pgq._is_ahead(i_snapshot pg_snapshot) returns boolean
            language sql as 'select false'"""
        )
        insert(connection, "new")
        assert value(connection, "select pgq.ticker('changes')") == 4
        assert "three" not in set(itertools.chain(*consume(connection, "ahead")))


def test_a_log_of_this_server_is_left_alone(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select pgq.insert_event('changes', 't', 'd')")

    assert rows(connection, "select * from sluice.after_restore()") == []
    with pytest.raises(psycopg.Error, match="needs no repair"):
        connection.execute("select * from sluice.after_restore('changes')")


def test_events_of_running_transactions_are_not_taken_for_foreign_ones(database, connection):
    connection.execute("select pgq.create_queue('changes')")
    with database.connect(autocommit=False) as writer:
        writer.execute("select pgq.insert_event('changes', 't', 'd')")
        # What it wrote itself is no reason either.
        with pytest.raises(psycopg.Error, match="needs no repair"):
            writer.execute(
                "set local lock_timeout = '5 s'; select * from sluice.after_restore('changes')"
            )


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("select * from sluice.after_restore('missing')", "PQ001"),
        (
            "begin isolation level repeatable read; select * from sluice.after_restore()",
            "PQ004",
        ),
    ],
)
def test_errors(connection, call, code):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(call)
    assert caught.value.sqlstate == code
