"""Share groups while a session holds a snapshot: no dead rows accumulate, no table grows."""

from __future__ import annotations

import pytest

from support import rows, value

ROUNDS = 40
OURS = "n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')"


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("update pgq.queue set queue_rotation_period = '0'")
    connection.execute("select sluice.create_group('changes', 'mail')")
    connection.execute("select pgq.register_consumer('changes', 'lake')")


def one_round(connection, empty):
    """Claim events with retries and expired leases, read them as a consumer, run maintenance."""
    connection.execute("select pgq.insert_event('changes', 't', 'x') from generate_series(1, 30)")
    for number in range(34):
        found = rows(
            connection,
            "select claim_id from sluice.claim('changes', 'mail', 1, %s::interval)",
            "1 us" if number % 10 == 9 else None,
        )
        if found and number % 10 != 9:
            connection.execute(
                "select sluice.acknowledge('changes', 'mail', %s, %s)",
                [found[0][0], "release" if number % 10 == 8 else "accept"],
            )
    connection.execute("select sluice.log_tick('changes')")
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    connection.execute("select pgq.finish_batch(%s)", [batch])
    connection.execute("select * from sluice.rotate()")
    if empty:
        # As regular maintenance does, but from 128 kB instead of 8 MB on.
        connection.execute("select * from sluice._maintain_ledgers(131072)")
        connection.execute("select pgq._maintain_positions(131072)")


def dead_rows(connection):
    connection.execute("select pg_stat_force_next_flush()")
    return dict(
        rows(
            connection,
            f"""select c.oid::regclass::text, pg_stat_get_dead_tuples(c.oid)
            from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
            where {OURS} and c.relkind = 'r' and pg_stat_get_dead_tuples(c.oid) > 0""",
        )
    )


def size(connection):
    return value(
        connection,
        f"""select sum(pg_total_relation_size(c.oid))::bigint
        from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
        where {OURS} and c.relkind = 'r'""",
    )


@pytest.fixture
def holder(database, log):
    with database.connect(autocommit=False) as session:
        session.execute("set transaction isolation level repeatable read")
        session.execute("select pg_current_xact_id()")
        yield session


@pytest.mark.slow
def test_beside_a_held_snapshot_no_dead_rows_gather_and_nothing_grows(connection, holder):
    sizes = []
    for _ in range(ROUNDS):
        one_round(connection, empty=True)
        sizes.append(size(connection))
    dead = dead_rows(connection)

    print(f"{ROUNDS} rounds, kB: {[s // 1024 for s in sizes[::5]]}, dead rows: {dead}")
    # Each round rotates the log, which leaves a dead row in pgq.queue and a few in a tick table
    # that is
    # truncated later; switching the ledgers leaves one.
    of_switches = ("pgq.queue", "pgq.subscriber", "pgq.tick_1_", "sluice.ledger")
    of_creation = {"pgq.origin": 2}  # independent of the number of rounds
    others = {name: rows for name, rows in dead.items() if not name.startswith(of_switches)}
    assert all(rows <= of_creation.get(name, 0) for name, rows in others.items()), others
    assert sum(dead.values()) <= 3 * ROUNDS, dead
    assert max(sizes[ROUNDS // 2 :]) <= 1.15 * max(sizes[: ROUNDS // 2]), sizes
    assert (
        value(connection, "select lag_events + leased from sluice.list_groups('changes', 'mail')")
        <= ROUNDS * 2
    )


@pytest.mark.slow
def test_the_ledgers_grow_when_they_are_not_emptied(connection, holder):
    sizes = []
    for _ in range(ROUNDS):
        one_round(connection, empty=False)
        sizes.append(size(connection))

    assert sizes[-1] > 1.15 * max(sizes[: ROUNDS // 2])
