"""Readers of groups at once: nothing overtakes a message of its group. And what a late commit can and cannot do."""

from __future__ import annotations

import itertools
import random
import threading
import time
from dataclasses import dataclass, field

import pytest

from support import rows, value

READERS = ("read_grouped", "read_grouped_rr", "read_grouped_head")
# The two conditions of _next_groups that hold a group back while a message of it is in flight; each alone would.
GUARDS = {
    "where %2$s between named.key and named.key\n                order by": (
        "where %2$s between named.key and named.key and q.vt <= $1\n                order by"
    ),
    "head.read_ct > 0 or not exists": "true or not exists",
}


@dataclass
class History:
    """What every consumer did, in the order in which it is known to have happened."""

    clock: itertools.count = field(default_factory=itertools.count)
    claims: list[tuple[int, list[int]]] = field(default_factory=list)  # when it had ended
    finishes: dict[int, int] = field(
        default_factory=dict
    )  # the last moment when it was not finished
    errors: list[Exception] = field(default_factory=list)

    def overtaken(self, group_of):
        """Claims of a message while an earlier one of its group was there and not claimed with it.

        A claim counts from when it had ended, a finish from before it began: what may have been simultaneous is no
        violation, so every violation is one.
        """
        members: dict[str, list[int]] = {}
        for msg_id in sorted(group_of):
            members.setdefault(group_of[msg_id], []).append(msg_id)
        return [
            (claimed, earlier)
            for ended, claim in self.claims
            for claimed in claim
            for earlier in members[group_of[claimed]]
            if earlier < claimed
            and earlier not in claim
            and self.finishes.get(earlier, ended) > ended
        ]


def consume(database, reader, history, seed, everything_done):
    """Claim, and then finish, give back, forget, roll back or die."""
    source = random.Random(seed)
    session = database.connect()
    try:
        while not everything_done.is_set():
            action = source.choices(
                ["finish", "give back", "forget", "roll back", "die"], [20, 3, 1, 2, 1]
            )[0]
            call = f"select msg_id from pgmq.{reader}('orders', 1, {source.choice([1, 2, 5])})"
            if action in ("roll back", "die"):
                session.execute("begin")
                session.execute(call)
                time.sleep(source.random() / 200)
                if action == "roll back":
                    session.execute("rollback")
                else:
                    session.close()
                    session = database.connect()
                continue
            claim = [row[0] for row in rows(session, call)]
            history.claims.append((next(history.clock), claim))
            if action == "finish":
                for msg_id in claim:
                    # Until this moment it is there for certain.
                    history.finishes.setdefault(msg_id, next(history.clock))
                    session.execute("select pgmq.delete('orders', %s)", [msg_id])
            elif action == "give back" and claim:
                # The last first: a consumer that gives back in another order lets the group go on too early.
                for msg_id in reversed(claim):
                    session.execute("select pgmq.set_vt('orders', %s, 0)", [msg_id])
    except Exception as error:
        history.errors.append(error)
    finally:
        session.close()


def run(database, reader, *, indexed):
    """Six consumers until the queue is empty; returns their history and the groups."""
    with database.connect() as connection:
        connection.execute("select pgmq.create('orders')")
        if indexed:
            connection.execute("select pgmq.create_fifo_index('orders')")
        connection.execute(
            "select pgmq.send_batch('orders', array_agg('{}'::jsonb), array_agg(jsonb_build_object('x-pgmq-group', n * n % 11))) "
            "from generate_series(1, 400) as n",
        )
        group_of = dict(
            rows(connection, "select msg_id, headers->>'x-pgmq-group' from pgmq.q_orders")
        )
        history, done = History(), threading.Event()
        threads = [
            threading.Thread(target=consume, args=(database, reader, history, seed, done))
            for seed in range(6)
        ]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 60
        while value(connection, "select count(*) from pgmq.q_orders") and time.monotonic() < end:
            time.sleep(0.02)
        done.set()
        for thread in threads:
            thread.join(30)
        left = value(connection, "select count(*) from pgmq.q_orders")
    return history, group_of, left


@pytest.mark.slow
@pytest.mark.parametrize("indexed", [False, True], ids=["no index", "index"])
@pytest.mark.parametrize("reader", READERS)
def test_six_consumers_keep_the_order_of_every_group(database_18, reader, indexed):
    history, group_of, left = run(database_18, reader, indexed=indexed)

    assert history.errors == []
    assert left == 0
    assert sum(len(claim) for _, claim in history.claims) >= 400
    assert history.overtaken(group_of) == []


def test_the_checker_sees_a_reader_that_ignores_the_head_in_flight(database_18):
    with database_18.connect() as connection:
        source = value(
            connection, "select pg_get_functiondef(oid) from pg_proc where proname = '_next_groups'"
        )
        for guard, planted in GUARDS.items():
            assert source.count(guard) == 1
            source = source.replace(guard, planted)
        connection.execute(source)

    history, group_of, _ = run(database_18, "read_grouped_head", indexed=True)

    assert history.errors == []
    assert history.overtaken(group_of) != []


@pytest.mark.parametrize("reader", READERS)
def test_a_late_commit_is_delivered_after_the_later_message_never_beside_it(database, reader):
    """What holds: order of commit. Message 1 commits when 2 is in flight, and waits until 2 is done."""
    call = f"select msg_id from pgmq.{reader}('orders', 60, 5)"
    with database.connect() as connection, database.connect(autocommit=False) as late:
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.create_fifo_index('orders')")
        late.execute("select pgmq.send('orders', '1'::jsonb)")
        connection.execute("select pgmq.send_batch('orders', '{2,3}'::jsonb[])")
        assert (2,) in rows(connection, call)
        late.commit()

        assert rows(connection, call) == []

        connection.execute("select pgmq.delete('orders', array[2, 3])")
        assert rows(connection, call) == [(1,)]


@pytest.mark.parametrize("reader", READERS)
def test_a_claim_that_is_not_committed_cannot_hold_a_late_commit_back(database, reader):
    """The limit of it: the claim of 2 is in an open transaction, and nobody can see it."""
    call = f"select msg_id from pgmq.{reader}('orders', 60, 1)"
    with (
        database.connect() as connection,
        database.connect(autocommit=False) as late,
        database.connect(autocommit=False) as claiming,
    ):
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.create_fifo_index('orders')")
        late.execute("select pgmq.send('orders', '1'::jsonb)")
        connection.execute("select pgmq.send('orders', '2'::jsonb)")
        assert rows(claiming, call) == [(2,)]
        late.commit()

        assert rows(connection, call) == [(1,)]


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_keeps_a_group_as_long_as_its_transaction_is_open(database, reader):
    """Also behind its claim: the second consumer gets neither the head nor what follows it."""
    with database.connect() as connection, database.connect(autocommit=False) as first:
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.send_batch('orders', '{1,2,3}'::jsonb[])")
        call = f"select msg_id from pgmq.{reader}('orders', 60, 1)"
        assert rows(first, call) == [(1,)]

        assert rows(connection, call) == []
        first.commit()
        assert rows(connection, call) == []


@pytest.mark.parametrize("reader", READERS)
def test_one_reader_of_one_message_holds_no_other_group(database, reader):
    with database.connect() as connection, database.connect(autocommit=False) as first:
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.create_fifo_index('orders')")
        connection.execute(
            "select pgmq.send_batch('orders', array_agg('1'::jsonb), array_agg(jsonb_build_object('x-pgmq-group', n))) "
            "from generate_series(1, 50) as n"
        )
        assert rows(first, f"select msg_id from pgmq.{reader}('orders', 60, 1)") == [(1,)]

        found = rows(connection, f"select msg_id from pgmq.{reader}('orders', 60, 100)")

        assert len(found) == 49
        assert value(connection, "select count(*) from pg_locks where locktype = 'advisory'") == 0
