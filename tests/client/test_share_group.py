"""Every method of the share group clients, sync and async, on a pool and on a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import BlockedKey, ClaimedEvent, GroupInfo, NewEvent, OpenClaim
from pgsluice.errors import (
    ArgumentError,
    ClaimNotFoundError,
    GroupNotFoundError,
    GroupStateError,
    LeaseLostError,
    LogNotFoundError,
    LogStateError,
)
from support import rows, wait_until

SOON = timedelta(seconds=30)


@pytest.fixture
def group(clients, log_name):
    """A group that starts at the end of an empty log."""
    group = clients.share_group(log_name, "g")
    group.create(backoff_base_s=0)
    return group


@pytest.fixture
def claimed(clients, log_name, group):
    """Insert events, and claim them all."""

    def insert_and_claim(*data, **options):
        clients.log.insert_many(log_name, [NewEvent("t", item) for item in data])
        events = group.claim(len(data), **options)
        assert [event.ev_data for event in events] == list(data)
        return events

    return insert_and_claim


def data(events):
    return [event.ev_data for event in events]


# --- groups --------------------------------------------------------------------------------------


def test_a_group_is_created_once_and_dropped_once(clients, log_name):
    group = clients.share_group(log_name, "g")

    assert group.create(lease_s=5) is True
    assert group.create(lease_s=5) is False
    assert group.drop() is True
    assert group.drop() is False
    with pytest.raises(GroupNotFoundError):
        group.info()


def test_a_group_with_other_options_or_the_name_of_a_consumer_is_not_created(clients, log_name):
    group = clients.share_group(log_name, "g")
    group.create(lease_s=5)
    clients.log.register_consumer(log_name, "c")

    with pytest.raises(GroupStateError, match="lease"):
        group.create(lease_s=6)
    with pytest.raises(GroupStateError, match="has a consumer"):
        clients.share_group(log_name, "c").create()


def test_options_are_kept_as_they_were_given(clients, log_name):
    group = clients.share_group(log_name, "g")

    group.create(
        lease_s=0.5,
        max_attempts=2,
        max_deliveries=9,
        backoff="linear",
        backoff_base_s=0.25,
        backoff_max_s=7,
        backoff_jitter=False,
    )

    info = group.info()
    assert type(info) is GroupInfo
    assert info == GroupInfo(
        log_name=log_name,
        group_name="g",
        lease=timedelta(seconds=0.5),
        max_attempts=2,
        max_deliveries=9,
        backoff="linear",
        backoff_base=timedelta(seconds=0.25),
        backoff_max=timedelta(seconds=7),
        backoff_jitter=False,
        key=None,
        when_waiting="block",
        unhandled="accept",
        lost=None,
        lag_events=0,
        lag_s=0,
        leased=0,
        retrying=0,
        dead=0,
    )
    assert clients.log.list_groups(log_name) == [info]


def test_options_that_are_given_are_changed_and_none_is_the_default(clients, log_name):
    group = clients.share_group(log_name, "g")
    group.create(max_attempts=2, lease_s=7)

    group.set_options(max_attempts=3, lease_s=None)

    info = group.info()
    assert (info.max_attempts, info.lease) == (3, timedelta(seconds=30))
    assert info.max_deliveries == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lease_s": 0}, "a lease of"),
        ({"max_attempts": 0}, "max_attempts 0"),
        ({"backoff": "quadratic"}, "a backoff 'quadratic'"),
        ({"backoff_base_s": -1}, "backoff_base_s is -1"),
        ({"lease": 30}, "unknown option 'lease'; use lease_s, max_attempts"),
        ({"when_waiting": "jump"}, "jump|when_waiting"),
    ],
    ids=lambda item: next(iter(item)) if isinstance(item, dict) else None,
)
def test_an_option_that_cannot_be_is_refused(clients, log_name, options, words):
    group = clients.share_group(log_name, "g")

    with pytest.raises(ArgumentError, match=words):
        group.create(**options)
    assert group.drop() is False
    group.create()
    with pytest.raises(ArgumentError):
        group.set_options(**options)


def test_a_group_starts_at_the_end_the_beginning_a_tick_or_a_time(clients, log_name, observer):
    ticks = []
    for item in ("one", "two", "three"):
        clients.log.insert_event(log_name, "t", item)
        ticks.append(clients.log.log_tick(log_name))
    observer.execute(
        "update pgq.tick set tick_time = now() - interval '1 hour' where tick_queue = "
        "(select queue_id from pgq.queue where queue_name = %s) and tick_id <= %s",
        [log_name, ticks[1]],
    )
    starts = {
        "latest": [],
        "earliest": ["one", "two", "three"],
        ticks[0]: ["two", "three"],
        datetime.now(UTC) - timedelta(minutes=30): ["three"],
    }

    for number, (start, expected) in enumerate(starts.items()):
        group = clients.share_group(log_name, f"g{number}")
        group.create(start=start)
        assert data(group.claim(10)) == expected, start

    with pytest.raises(LogStateError, match="tick not found|no tick|not kept"):
        clients.share_group(log_name, "late").create(start=10**9)


def test_groups_of_one_log_and_of_all_are_listed_by_name(make, database_18):
    clients = make.pool(database_18.url)
    for log_name in ("b", "a"):
        clients.log.create(log_name)
        for group_name in ("y", "x"):
            clients.share_group(log_name, group_name).create()

    def listed(*log_name):
        return [(info.log_name, info.group_name) for info in clients.log.list_groups(*log_name)]

    assert listed("b") == [("b", "x"), ("b", "y")]
    assert listed() == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    with pytest.raises(LogNotFoundError):
        listed("nope")


def test_group_is_a_consumer_that_consumer_methods_reject(clients, log_name, group):
    assert [c.consumer_name for c in clients.log.get_consumer_info(log_name)] == ["g"]

    with pytest.raises(LogStateError, match="share group"):
        clients.log.next_batch(log_name, "g")
    with pytest.raises(LogStateError, match="share group"):
        clients.log.unregister_consumer(log_name, "g")


# --- claims --------------------------------------------------------------------------------------


def test_claimed_event_has_all_its_fields(clients, log_name, group):
    extras = {f"ev_extra{n}": f"é{n}" for n in range(1, 5)}
    full = clients.log.insert_event(log_name, "c", '{"a": 1}', **extras)
    bare = clients.log.insert_event(log_name, None, None)

    first, second = group.claim(5, lease_s=60)

    assert type(first) is ClaimedEvent
    assert (first.ev_id, second.ev_id) == (full, bare)
    assert first.claim_id == second.claim_id > 0
    assert second.ev_txid > first.ev_txid > 0
    assert abs(datetime.now(UTC) - first.ev_time) < SOON
    assert abs(datetime.now(UTC) + timedelta(minutes=1) - first.lease_until) < SOON
    assert (first.attempt, first.deliveries, first.redriven) == (1, 1, 0)
    assert (first.ev_type, first.ev_data) == ("c", '{"a": 1}')
    assert {name: getattr(first, name) for name in extras} == extras
    assert (second.ev_type, second.ev_data, second.ev_extra4) == (None, None, None)


def test_an_event_is_claimed_once_without_a_tick_and_no_more_than_asked_for(
    clients, log_name, group
):
    assert group.claim() == []
    clients.log.insert_many(log_name, [NewEvent("t", item) for item in "abc"])

    assert data(group.claim()) == ["a"]
    assert data(group.claim(10)) == ["b", "c"]
    assert group.claim(10) == []


def test_claims_that_are_not_settled_are_listed(group, claimed):
    first, second = claimed("a", lease_s=60), claimed("b", "c", lease_s=90)
    group.renew(second, lease_s=600)
    group.accept(second[0])

    assert group.list_claims() == [
        OpenClaim(first[0].claim_id, *when(group, 0), 1, 0, 0),
        OpenClaim(second[0].claim_id, *when(group, 1), 2, 1, 1),
    ]
    assert when(group, 0)[1] == first[0].lease_until
    assert when(group, 1)[1] > second[0].lease_until + SOON
    info = group.info()
    assert (info.leased, info.lag_events, info.lag_s) == (2, 0, 0)


def test_keys_are_listed_while_they_wait_and_unparked(clients, log_name):
    group = clients.share_group(log_name, "g")
    group.create(key="ev_extra1", when_waiting="park")
    clients.log.insert_many(log_name, [NewEvent("t", item, ev_extra1="a") for item in "123"])
    claimed = group.claim(2)

    assert group.retry(claimed[0], delay_s=60) == 2
    assert group.claim(3) == []
    (key,) = group.list_blocked_keys()
    assert (key.key, key.reason, key.waiting, key.ev_id) == ("a", "parked", 2, claimed[0].ev_id)
    assert isinstance(key, BlockedKey)
    assert (group.unpark_key("b"), group.unpark_key("a")) == (0, 3)
    assert data(group.claim(3)) == ["1", "2", "3"]


def when(group, position):
    claim = group.list_claims()[position]
    return claim.claimed_at, claim.lease_until


# --- outcomes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["by its id", "by its events"])
def test_a_claim_is_accepted_once_and_saying_it_again_settles_nothing(group, claimed, named):
    events = claimed("a", "b")
    claim = events[0].claim_id if named == "by its id" else events

    assert group.accept(claim) == 2
    assert group.accept(claim) == 0
    assert group.list_claims() == []
    assert group.claim(5) == []


@pytest.mark.parametrize("named", ["by its id", "by its events"])
def test_some_events_of_a_claim_are_settled_and_then_the_rest(group, claimed, named):
    one, two, three = claimed("a", "b", "c")
    if named == "by its id":
        assert group.accept(one.claim_id, ev_ids=[one.ev_id, three.ev_id]) == 2
    else:
        assert group.accept([three, one]) == 2

    assert group.release(two.claim_id) == 1

    assert data(group.claim(5)) == ["b"]


def test_no_events_settle_nothing(group, claimed):
    claimed("a")

    assert group.accept([]) == 0
    assert group.reject([], "broken") == 0

    assert [claim.settled for claim in group.list_claims()] == [0]


def test_released_event_is_redelivered_without_counting_an_attempt(group, claimed):
    (event,) = claimed("a")

    assert group.release(event) == 1

    (redelivered,) = group.claim()
    assert (redelivered.ev_id, redelivered.attempt, redelivered.deliveries) == (event.ev_id, 1, 1)
    assert redelivered.claim_id > event.claim_id
    assert group.release(redelivered, delay_s=600) == 1
    assert group.claim() == []
    assert group.info().retrying == 1


def test_retried_event_is_redelivered_and_counts_an_attempt(group, claimed):
    (event,) = claimed("a")

    assert group.retry(event, error="no luck") == 1

    (redelivered,) = group.claim()
    assert (redelivered.ev_id, redelivered.attempt, redelivered.deliveries) == (event.ev_id, 2, 2)
    assert group.retry(redelivered, delay_s=600) == 1
    assert group.claim() == []


def test_the_last_attempt_and_a_rejection_are_dead(clients, log_name, group, claimed, observer):
    group.set_options(max_attempts=1)
    bad, worse = claimed("a", "b")

    assert group.retry(bad, error="trace") == 1
    assert group.reject(worse, "broken", "other trace") == 1

    dead = rows(
        observer,
        "select msg_id, ev_data, reason, error, attempts from sluice.dead_letter where queue_name = %s order by msg_id",
        log_name,
    )
    assert dead == [
        (bad.ev_id, "a", "too many attempts", "trace", 1),
        (worse.ev_id, "b", "broken", "other trace", 1),
    ]
    assert group.info().dead == 2
    assert group.claim() == []


def test_acknowledge_says_every_outcome(group, claimed, observer, log_name):
    one, two, three, four = claimed("a", "b", "c", "d")

    assert group.acknowledge(one.claim_id, ev_ids=[one.ev_id]) == 1
    assert group.acknowledge(two, "release", delay_s=0) == 1
    assert group.acknowledge([three], "retry", delay_s=0, error="no luck") == 1
    assert group.acknowledge(four, "reject", reason="broken", error="trace") == 1

    assert sorted((e.ev_data, e.attempt) for e in group.claim(5)) == [("b", 1), ("c", 2)]
    query = "select reason, error from sluice.dead_letter where queue_name = %s"
    assert rows(observer, query, log_name) == [("broken", "trace")]


def test_expired_lease_claimed_by_another_consumer_is_lost(group, claimed):
    (event,) = claimed("a", lease_s=0.01)
    redelivered = []
    wait_until(lambda: redelivered.extend(group.claim()) or redelivered, "the lease to expire")

    assert data(redelivered) == ["a"]
    for call in (
        lambda: group.accept(event),
        lambda: group.release(event.claim_id),
        lambda: group.retry([event]),
        lambda: group.reject(event, "broken"),
        lambda: group.renew(event),
    ):
        with pytest.raises(LeaseLostError, match=str(event.claim_id)) as caught:
            call()
        assert caught.value.sqlstate == "SG002"
    assert group.accept(redelivered) == 1


def test_an_event_that_was_settled_cannot_be_settled_otherwise(group, claimed):
    one, two = claimed("a", "b")
    group.accept(one)

    with pytest.raises(LeaseLostError, match=str(one.ev_id)):
        group.retry([one, two])

    assert [claim.settled for claim in group.list_claims()] == [1]


def test_a_renewed_lease_begins_anew_and_is_never_shorter(group, claimed):
    events = claimed("a", "b")

    until = group.renew(events, lease_s=600)

    assert abs(datetime.now(UTC) + timedelta(minutes=10) - until) < SOON
    for claim in (events[0].claim_id, events[1]):
        assert until <= group.renew(claim, lease_s=1) < until + SOON
    group.accept(events)
    with pytest.raises(LeaseLostError):
        group.renew(events)


def test_acknowledging_an_unclaimed_event_is_an_error(group, claimed):
    (event,) = claimed("a")

    with pytest.raises(ClaimNotFoundError, match="has no claim 9223372036854775807") as caught:
        group.accept(2**63 - 1)
    assert caught.value.sqlstate == "SG003"
    with pytest.raises(ClaimNotFoundError, match="Missing: 0"):
        group.accept(event.claim_id, ev_ids=[event.ev_id, 0])
    assert group.accept(event) == 1


# --- missing groups and logs ---------------------------------------------------------------------

METHODS = {
    "set_options": lambda group: group.set_options(lease_s=5),
    "info": lambda group: group.info(),
    "claim": lambda group: group.claim(),
    "accept": lambda group: group.accept(1),
    "release": lambda group: group.release(1),
    "retry": lambda group: group.retry(1),
    "reject": lambda group: group.reject(1, "broken"),
    "renew": lambda group: group.renew(1),
    "list_blocked_keys": lambda group: group.list_blocked_keys(),
    "list_claims": lambda group: group.list_claims(),
    "unpark_key": lambda group: group.unpark_key("a"),
}


@pytest.mark.parametrize("call", METHODS.values(), ids=METHODS)
def test_a_group_or_a_log_that_does_not_exist_is_an_error_with_a_hint(clients, log_name, call):
    with pytest.raises(
        GroupNotFoundError, match=r"no share group 'nope'.*ShareGroup.create"
    ) as caught:
        call(clients.share_group(log_name, "nope"))
    assert caught.value.sqlstate == "SG001"

    with pytest.raises(LogNotFoundError, match="'nope' does not exist.*create it with create"):
        call(clients.share_group("nope", "g"))


@pytest.mark.parametrize("method", ["create", "drop"])
def test_a_group_of_a_log_that_does_not_exist_is_neither_made_nor_dropped(clients, method):
    with pytest.raises(LogNotFoundError, match="'nope' does not exist.*create it with create"):
        getattr(clients.share_group("nope", "g"), method)()


def test_no_value_stays_behind_on_the_servers_side(clients, group, claimed):
    claimed("a", synchronous=False)

    assert clients.value("show synchronous_commit") == value_of_server(clients)


def value_of_server(clients):
    return clients.value("select reset_val from pg_settings where name = 'synchronous_commit'")
