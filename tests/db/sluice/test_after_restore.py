import itertools

import psycopg
import pytest

from support import rows, value
from support.epoch import EPOCH, go_to_the_end_of_an_epoch
from support.log import tick
from support.restore import dump_and_restore
from support.servers import TEMPLATE, VERSIONS, new_database


@pytest.fixture(params=VERSIONS, ids=[f"pg{v}" for v in VERSIONS])
def old_and_new(request, servers):
    """A database on a server with high transaction ids, and an empty one on another server."""
    old = servers.get(request.param, "epoch")
    with psycopg.connect(old.url(), autocommit=True) as connection:
        late = value(connection, "select pg_current_xact_id()::text::bigint") > EPOCH << 32
    if not late:
        go_to_the_end_of_an_epoch(old)
    new = servers.get(request.param)
    with new_database(old, TEMPLATE) as first, new_database(new, "template0") as second:
        yield first, second


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
    """Finish all batches up to the last tick; return their events."""
    batches = []
    while (batch := next_batch(connection, consumer)) is not None:
        batches.append(events(connection, batch))
        connection.execute("select pgq.finish_batch(%s)", (batch,))
    return batches


@pytest.fixture
def log(old_and_new):
    """A log with consumers at various positions, an open batch, a retry and late commits."""
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


@pytest.mark.slow
def test_a_restored_log_delivers_what_it_would_have_delivered_where_it_was(old_and_new, log):
    old, new = old_and_new
    dump_and_restore(old, new)

    with new.connect() as connection:
        with pytest.raises(
            psycopg.Error, match="event log 'changes' was restored from a dump"
        ) as caught:
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


def test_a_kept_tick_at_which_no_consumer_stands_does_not_stop_the_repair(old_and_new):
    old, new = old_and_new
    with old.connect() as connection:
        connection.execute("select pgq.create_queue('changes')")
        connection.execute("select pgq.register_consumer('changes', 'lake')")
        for number in range(3):
            insert(connection, f"{number}")
            connection.execute("select sluice.log_tick('changes')")
    dump_and_restore(old, new)
    with new.connect() as connection:
        assert rows(connection, "select * from sluice.after_restore()") == [("changes", 3)]
        assert consume(connection, "lake") == [["0", "1", "2"]]


@pytest.mark.slow
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


@pytest.mark.slow
def test_without_the_repair_events_would_not_come(old_and_new, log):
    old, new = old_and_new
    dump_and_restore(old, new)
    with new.connect() as connection:
        # Disable the checks for restored logs.
        connection.execute(
            """create or replace function pgq._is_ahead(i_snapshot pg_snapshot) returns boolean
            language sql as 'select false'"""
        )
        connection.execute(
            """create or replace function pgq._is_restored(i_queue_id integer) returns boolean
            language sql as 'select false'"""
        )
        insert(connection, "new")
        assert value(connection, "select pgq.ticker('changes')") == 4
        assert "three" not in set(itertools.chain(*consume(connection, "ahead")))


def claim(connection, qty, group="mail"):
    found = rows(
        connection,
        "select claim_id, ev_data, attempt from sluice.claim('changes', %s, %s)",
        group, qty,
    )  # fmt: skip
    return (
        [claim_id for claim_id, _, _ in found][:1],
        [(data, attempt) for _, data, attempt in found],
    )


def acknowledge(connection, claim_id, *rest):
    more = ", %s" * len(rest)
    return value(
        connection,
        f"select sluice.acknowledge('changes', 'mail', %s{more})",
        *claim_id,
        *rest,
    )


@pytest.fixture
def groups(old_and_new):
    """A group `mail` with settled, held and partly settled claims and two retries; a group `rest`.

    One retry is already read by a claim. `rest` is at the beginning of the log.
    """
    old, _ = old_and_new
    with old.connect() as connection, old.connect(autocommit=False) as late:
        connection.execute("select pgq.create_queue('changes')")
        options = '{"backoff_base": "0 s", "lease": "1 hour"}'
        connection.execute("select sluice.create_group('changes', 'mail', %s)", [options])
        connection.execute("select sluice.create_group('changes', 'rest', %s)", [options])
        insert(late, "late")
        for number in range(1, 4):
            insert(connection, f"{number}")
        settled, _ = claim(connection, 1)
        acknowledge(connection, settled)
        read, _ = claim(connection, 1)
        acknowledge(connection, read, "retry")
        _, again = claim(connection, 1)
        assert again == [("2", 2)]
        connection.execute("select sluice.log_tick('changes')")
        for number in range(4, 8):
            insert(connection, f"{number}")
        late.commit()
        held, found = claim(connection, 3)
        assert found == [("3", 1)]
        more, found = claim(connection, 3)
        assert found == [("late", 1), ("4", 1), ("5", 1)]
        ev_id = value(connection, "select ev_id from pgq.event_1 where ev_data = '4'")
        acknowledge(connection, more, "accept", [ev_id])
        last, found = claim(connection, 1)
        assert found == [("6", 1)]
        acknowledge(connection, last, "retry")
        yield {"settled": settled, "held": held, "more": more}


@pytest.mark.slow
def test_restored_groups_go_on_where_they_were(old_and_new, groups):
    old, new = old_and_new
    dump_and_restore(old, new)
    with new.connect() as connection:
        assert rows(connection, "select * from sluice.after_restore()") == [("changes", 8)]

    outcomes = []
    for database in old_and_new:
        with database.connect() as connection:
            insert(connection, "new")
            open_claims = rows(
                connection,
                "select claim_id, events, settled from sluice.list_claims('changes', 'mail') order by 1",
            )
            acknowledged = [acknowledge(connection, groups[name]) for name in ("held", "more")]
            _, found = claim(connection, 10)
            _, after = claim(connection, 10)
            rest = []
            while page := claim(connection, 3, "rest")[1]:
                rest += [data for data, _ in page]
            state = rows(
                connection,
                "select lag_events, leased, retrying, dead from sluice.list_groups('changes', 'mail')",
            )
            outcomes.append((open_claims, acknowledged, found, after, sorted(rest), state))
    assert outcomes[1] == outcomes[0]
    assert outcomes[1][1:5] == (
        [1, 2],
        [("6", 2), ("7", 1)],
        [("new", 1)],
        ["1", "2", "3", "4", "5", "6", "7", "late", "new"],
    )


@pytest.mark.slow
def test_restored_group_forgets_settled_events_and_the_log_rotates(old_and_new, groups):
    old, new = old_and_new
    dump_and_restore(old, new)
    with new.connect() as connection:
        connection.execute("select * from sluice.after_restore()")
        assert rows(connection, "select * from sluice.after_restore()") == []
        with pytest.raises(psycopg.Error) as caught:
            acknowledge(connection, groups["settled"])
        assert caught.value.sqlstate == "SG002"

        connection.execute("select sluice.drop_group('changes', 'rest')")
        insert(connection, "last")
        connection.execute("select sluice.log_tick('changes')")
        while claim(connection, 10)[1]:
            pass
        for claim_id in rows(
            connection, "select claim_id from sluice.list_claims('changes', 'mail')"
        ):
            acknowledge(connection, claim_id)
        connection.execute("update pgq.queue set queue_rotation_period = '0'")
        for _ in range(2):
            connection.execute("select sluice.log_tick('changes')")
            actions = rows(connection, "select segment, action from sluice.rotate()")
        assert (0, "reclaimed") in actions


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
        # Nor do its own events count as foreign.
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
