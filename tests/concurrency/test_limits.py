"""Eight concurrent sessions claim exactly up to the limits of a queue; planted bugs are found."""

from __future__ import annotations

import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support import replace_in, rows, value, wait_for_lock
from support.queue_options import set_queue_options

SESSIONS = 8
LIMIT = 5
KEYS = 4
KEY_LIMIT = 2
RATE = 25
ENDINGS = (
    "select sluice.delete('q', %s, %s)",
    "select sluice.archive('q', %s, %s)",
    "select sluice.reject('q', %s, %s, 'bad')",
    "select sluice.release('q', %s, %s, 600)",
    "select sluice.release('q', %s, %s)",
    # Its worker died and its lease expired.
    "update pgmq.q_q set vt = clock_timestamp() where msg_id = %s and read_ct = %s",
)

WAIT = (
    "select sluice.fail('q', jsonb_build_array(jsonb_build_object("
    "'msg_id', %s::bigint, 'read_ct', %s::int, 'delay', 0.01)), policy => '{\"max_attempts\": 99}')"
)


@pytest.fixture
def sessions(database_18):
    """Eight sessions, and the queue `q` with 2,000 messages of four keys, some of them delayed."""
    with database_18.connect() as connection:
        connection.execute("select pgmq.create('q')")
        connection.execute(
            "insert into pgmq.q_q (vt, message, headers) "
            "select now() + case when n %% 10 = 0 then interval '1 hour' else '0' end, '1', "
            "jsonb_build_object('x-pgmq-group', n %% %s) from generate_series(1, 2000) as n",
            (KEYS,),
        )
    opened = [database_18.connect() for _ in range(SESSIONS)]
    yield opened
    for session in opened:
        session.close()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(SESSIONS) as pool:
        yield pool


def claim_at_once(sessions, pool, quantities):
    """Return the messages of each session: (msg_id, read_ct, key)."""
    barrier = threading.Barrier(SESSIONS)

    def claim(session: psycopg.Connection, qty: int) -> list[tuple]:
        barrier.wait(30)
        query = "select msg_id, read_ct, headers ->> 'x-pgmq-group' from sluice.claim_messages('q', 600, %s)"
        return rows(session, query, qty)

    return list(itertools.chain.from_iterable(pool.map(claim, sessions, quantities)))


def settle(sessions, claims, generator):
    for session, (msg_id, read_ct, _key) in zip(itertools.cycle(sessions), claims, strict=False):
        session.execute(generator.choice(ENDINGS), (msg_id, read_ct))


def check_fleet(sessions, pool, generator, rounds):
    """In each round all sessions claim at once; unsettled earlier messages use up slots."""
    held: list[tuple] = []
    for _ in range(rounds):
        asked = [generator.randint(1, 3) for _ in sessions]
        held += claim_at_once(sessions, pool, asked)
        assert len(held) == LIMIT
        generator.shuffle(held)
        ended = generator.randint(1, LIMIT)
        settle(sessions, held[:ended], generator)
        held = held[ended:]


def check_keys(sessions, pool, generator, rounds):
    for _ in range(rounds):
        claims = claim_at_once(sessions, pool, [generator.randint(1, 9) for _ in sessions])
        by_key = [sum(claim[2] == str(key) for claim in claims) for key in range(KEYS)]
        assert max(by_key) <= KEY_LIMIT
        # The last session may have requested fewer messages than there was room for.
        claims += claim_at_once(sessions, pool, [99] * SESSIONS)
        assert [sum(claim[2] == str(key) for claim in claims) for key in range(KEYS)] == [
            KEY_LIMIT
        ] * KEYS
        settle(sessions, claims, generator)


def check_rate(sessions, pool, generator, rounds):
    """Each round starts when the interval of the previous one has ended."""
    for _ in range(rounds):
        claims = claim_at_once(sessions, pool, [generator.randint(1, 9) for _ in sessions])
        assert len(claims) <= RATE
        claims += claim_at_once(sessions, pool, [99] * SESSIONS)
        assert len(claims) == RATE
        sessions[0].execute("select pgmq.delete('q', %s)", ([claim[0] for claim in claims],))
        sessions[0].execute(
            "update sluice.queue_start set started_at = started_at - interval '1 hour'"
        )


LIMITS = {
    check_fleet: {"fleet_concurrency": LIMIT},
    check_keys: {"key_concurrency": KEY_LIMIT},
    check_rate: {"rate": RATE, "rate_interval": "1 hour"},
}


@pytest.mark.parametrize("check", LIMITS, ids=lambda check: check.__name__)
def test_eight_sessions_use_what_there_is_and_no_more(sessions, pool, seed, check):
    set_queue_options(sessions[0], "q", **LIMITS[check])

    check(sessions, pool, random.Random(seed), rounds=25)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "function", "old", "new"),
    [
        # Without the lock, two sessions count the same slots. With keys they also choose the same
        # messages,
        # and one of them gets these: see below.
        (check, "sluice._lock_limits(integer)", "not sluice._try_lock(v_lock_class, limits_id)", "false")
        for check in (check_fleet, check_rate)
    ]
    + [
        # Waiting messages count as in flight.
        (
            check_fleet,
            "sluice._in_flight(text, timestamptz, integer)",
            "q.last_read_at is not null",
            "q.vt > q.enqueued_at",
        ),
        # Expired messages count as in flight.
        (check_fleet, "sluice._in_flight(text, timestamptz, integer)", "and q.vt > $1", ""),
        # Messages in flight of a key are ignored.
        (
            check_keys,
            "sluice._first_of_keys(sluice.queue_settings, timestamptz, bigint[], integer)",
            "and q.vt > q.enqueued_at and q.last_read_at is not null",
            "and q.vt > q.enqueued_at and q.last_read_at is null",
        ),
        # The total omits the newest claim.
        (
            check_rate,
            "sluice._capacity(sluice.queue_settings, timestamptz)",
            "before := v_last.before + v_last.started",
            "before := v_last.before",
        ),
        # The interval never ends.
        (
            check_rate,
            "sluice._capacity(sluice.queue_settings, timestamptz)",
            "s.started_at > at - i_limits.rate_interval",
            "s.started_at > '-infinity'",
        ),
    ],
)  # fmt: skip
def test_a_planted_bug_is_found(sessions, pool, seed, check, function, old, new):
    set_queue_options(sessions[0], "q", **LIMITS[check])
    replace_in(sessions[0], function, old, new)

    with pytest.raises((AssertionError, psycopg.errors.UniqueViolation)):
        check(sessions, pool, random.Random(seed), rounds=100)


@pytest.mark.slow
@pytest.mark.parametrize("when_waiting", ["block", "skip"])
def test_messages_of_a_key_are_handled_one_after_the_other(database_18, pool, seed, when_waiting):
    """First claims of messages fail, expire or are released; `block` also orders the ends."""
    per_key = 12
    held: set[str] = set()
    ended: dict[str, list[int]] = {str(key): [] for key in range(KEYS)}
    guard = threading.Lock()
    deadline = time.monotonic() + 60
    with database_18.connect() as connection:
        connection.execute("select pgmq.create('q')")
        set_queue_options(connection, "q", when_waiting=when_waiting)
        connection.execute(
            "select pgmq.send('q', '1'::jsonb, jsonb_build_object('x-pgmq-group', n %% %s)) from generate_series(1, %s) as n",
            (KEYS, KEYS * per_key),
        )

    def handle(number: int) -> None:
        generator = random.Random(f"{seed}/{number}")
        with database_18.connect() as session:
            while sum(map(len, ended.values())) < KEYS * per_key:
                assert time.monotonic() < deadline
                claims = rows(
                    session,
                    "select msg_id, read_ct, headers ->> 'x-pgmq-group' from sluice.claim_messages('q', 600, 3)",
                )
                with guard:
                    assert held.isdisjoint(claim[2] for claim in claims)
                    held.update(claim[2] for claim in claims)
                session.execute("select pg_sleep(0.001)")
                for msg_id, read_ct, key in claims:
                    is_done = read_ct > generator.randint(0, 3)
                    with guard:
                        held.remove(key)
                        if is_done:
                            ended[key].append(msg_id)
                    ending = ENDINGS[0] if is_done else generator.choice((ENDINGS[-1], WAIT))
                    session.execute(ending, (msg_id, read_ct))

    list(pool.map(handle, range(SESSIONS)))

    assert all(len(ids) == per_key for ids in ended.values())
    if when_waiting == "block":
        assert all(ids == sorted(ids) for ids in ended.values())


def gate(connection: psycopg.Connection, function: str, place: str) -> None:
    """Let the session `gated` wait for advisory lock 42 before a place in a function."""
    wait = "    if current_setting('application_name') = 'gated' then\n        perform pg_advisory_xact_lock(42);\n    end if;\n"
    replace_in(connection, function, place, wait + place)


def test_a_claim_takes_no_message_of_a_key_whose_first_fails_while_the_claim_looks(
    database_18, pool
):
    """Message 1 fails after a claim found no waiting one; the key is parked, so 2 must not be claimed."""
    with (
        database_18.connect() as connection,
        database_18.connect(application_name="gated") as claimer,
    ):
        connection.execute("select pgmq.create('q')")
        set_queue_options(connection, "q", when_waiting="park")
        gate(
            connection,
            "sluice._park_keys(sluice.queue_settings, timestamptz, bigint[])",
            "    return array(",
        )
        for _ in range(2):
            connection.execute(
                "select pgmq.send('q', '1'::jsonb, '{\"x-pgmq-group\": \"k\"}'::jsonb)"
            )
        claim = "select msg_id from sluice.claim_messages('q', 600, 9)"
        assert rows(connection, claim) == [(1,)]
        connection.execute("select pg_advisory_lock(42)")

        claimed = pool.submit(rows, claimer, claim)
        wait_for_lock(connection, claimer)
        connection.execute(
            "select sluice.fail('q', jsonb_build_array(jsonb_build_object("
            "'msg_id', 1, 'read_ct', 1, 'delay', 60)))"
        )
        connection.execute("select pg_advisory_unlock(42)")

        assert claimed.result(30) == []
        assert rows(connection, claim) == []
        assert rows(connection, "select key, msg_id from sluice.parked_key") == [("k", 1)]


@pytest.mark.parametrize("is_locked", [True, False])
def test_a_key_needs_the_lock_for_what_commits_late(database_18, pool, is_locked):
    """Message 1 commits after a session chose 2; another session must not claim 1 as well."""
    with (
        database_18.connect() as connection,
        database_18.connect(autocommit=False) as late,
        database_18.connect(application_name="gated") as first,
        database_18.connect() as second,
    ):
        connection.execute("select pgmq.create('q')")
        set_queue_options(connection, "q", when_waiting="skip")
        gate(
            connection,
            "sluice._pick_by_key(sluice.queue_settings, timestamptz, integer)",
            "    if not v_is_all then",
        )
        if not is_locked:
            replace_in(
                connection,
                "sluice._lock_limits(integer)",
                "not sluice._try_lock(v_lock_class, limits_id)",
                "false",
            )
        send = "select pgmq.send('q', '1'::jsonb, '{\"x-pgmq-group\": \"k\"}'::jsonb)"
        claim = "select msg_id from sluice.claim_messages('q', 600, 1)"
        late.execute(send)
        connection.execute(send)
        connection.execute("select pg_advisory_lock(42)")

        got_first = pool.submit(rows, first, claim)
        wait_for_lock(connection, first)
        late.commit()
        got_second = pool.submit(rows, second, claim)
        if is_locked:
            wait_for_lock(connection, second)
        else:
            got_second.result(30)
        connection.execute("select pg_advisory_unlock(42)")

        assert got_first.result(30) == [(2,)]
        assert got_second.result(30) == ([] if is_locked else [(1,)])


@pytest.mark.slow
def test_no_real_time_interval_exceeds_the_rate_limit(sessions, pool):
    """At most 40 messages in any 400 ms of the server's clock; sessions wait for next_capacity."""
    rate, interval_s, wanted = 40, 0.4, 160
    set_queue_options(sessions[0], "q", rate=rate, rate_interval=interval_s)
    deadline = time.monotonic() + 60

    def claim(session: psycopg.Connection) -> list[float]:
        starts: list[float] = []
        while True:
            starts += [
                start
                for (start,) in rows(
                    session,
                    "select extract(epoch from last_read_at)::float8 from sluice.claim_messages('q', 600, 3)",
                )
            ]
            if value(session, "select count(*) >= %s from pgmq.q_q where read_ct > 0", wanted):
                return starts
            assert time.monotonic() < deadline
            session.execute(
                "select pg_sleep_until(greatest(sluice.next_capacity('q'), clock_timestamp()))"
            )

    starts = sorted(itertools.chain.from_iterable(pool.map(claim, sessions)))

    for first, beyond in zip(starts, starts[rate:], strict=False):
        assert beyond - first >= interval_s - 1e-4
    # Three intervals are needed; four more allow for a busy machine.
    assert starts[wanted - 1] - starts[0] < 7 * interval_s
