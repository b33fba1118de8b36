"""Transactions of share group calls: the caller's, and on a pool one for each call."""

from __future__ import annotations

import pickle
import time

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from pgsluice.errors import (
    GroupBusyError,
    GroupStateError,
    LeaseLostError,
    RetryableError,
)
from support import rows, value


@pytest.fixture
def group_of(log_name, observer):
    """Return a group, on the given client, of a log with three events."""
    observer.execute("select sluice.create_group(%s, 'g')", [log_name])
    observer.execute(
        "select pgq.insert_event(%s, 't', d) from unnest(array['a', 'b', 'c']) as d", [log_name]
    )
    return lambda clients: clients.share_group(log_name, "g")


@pytest.fixture
def business(observer):
    observer.execute("create table if not exists business (ev_id bigint primary key)")
    observer.execute("truncate business")
    return lambda: rows(observer, "select ev_id from business")


def settled(observer, log_name):
    """Return the number of events and of settled events of each open claim of the group."""
    return rows(observer, "select events, settled from sluice.list_claims(%s, 'g')", log_name)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_acknowledgement_and_a_business_row_are_written_together_or_not_at_all(
    caller, group_of, log_name, business, observer, end
):
    group = group_of(caller)
    (event,) = group.claim()
    caller.source.commit()

    caller.source.execute("insert into business values (%s)", [event.ev_id])
    assert group.accept(event) == 1
    assert (business(), settled(observer, log_name)) == ([], [(1, 0)])
    getattr(caller.source, end)()

    expected = ([(event.ev_id,)], []) if end == "commit" else ([], [(1, 0)])
    assert (business(), settled(observer, log_name)) == expected


def test_no_method_of_a_group_ends_the_callers_transaction(caller, log_name, observer):
    group = caller.share_group(log_name, "mine")
    observer.execute("select pgq.insert_event(%s, 't', 'x')", [log_name])
    xid = caller.value("select pg_current_xact_id()::text")

    group.create(start="earliest")
    group.set_options(lease_s=60)
    events = group.claim(5)
    group.renew(events)
    group.release(events)
    group.list_claims()
    group.info()
    caller.log.list_groups(log_name)

    assert caller.value("select pg_current_xact_id()::text") == xid
    assert caller.source._inner.info.transaction_status == TransactionStatus.INTRANS
    caller.source.rollback()
    assert value(observer, "select count(*) from sluice.list_groups(%s)", log_name) == 0


def test_a_claim_that_is_rolled_back_was_none_and_its_number_is_not_used_again(caller, group_of):
    group = group_of(caller)
    before = group.claim(2)
    caller.source.rollback()

    again = group.claim(3)
    caller.source.commit()

    assert [event.ev_data for event in again] == ["a", "b", "c"]
    assert [event.attempt for event in again] == [1, 1, 1]
    assert again[0].claim_id > before[0].claim_id
    with pytest.raises(LeaseLostError):
        group.accept(before[0].claim_id)
    caller.source.rollback()


@pytest.mark.slow
def test_a_claim_in_a_transaction_that_stays_open_makes_others_busy_and_nothing_is_lost(
    make, caller, group_of, shared_url
):
    group, other = group_of(caller), group_of(make.pool(shared_url))
    group.claim()
    pid = caller.source._inner.info.backend_pid
    started_s = time.monotonic()

    with pytest.raises(GroupBusyError, match=rf"'g'.*pid {pid}.*commit right after") as caught:
        other.claim()

    assert 1.5 < time.monotonic() - started_s < 20
    assert isinstance(caught.value, RetryableError)
    assert caught.value.sqlstate == "SG005"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.sqlstate) == (
        GroupBusyError, str(caught.value), "SG005",
    )  # fmt: skip
    caller.source.commit()
    assert [event.ev_data for event in other.claim(5)] == ["b", "c"]


def test_others_acknowledge_while_a_claim_is_open(make, caller, group_of, shared_url):
    other = group_of(make.pool(shared_url))
    events = other.claim(2)
    group_of(caller).claim()

    assert other.accept(events[0]) == 1
    assert other.retry(events[1]) == 1
    other.info()
    caller.source.rollback()


def test_with_a_snapshot_from_the_start_of_a_transaction_nothing_is_claimed(
    make, shared_url, group_of
):
    caller = make.connection(
        shared_url, options="-c default_transaction_isolation=repeatable\\ read"
    )

    with pytest.raises(GroupStateError, match="READ COMMITTED"):
        group_of(caller).claim()


@pytest.fixture
def commits(observer):
    """Record the synchronous_commit with which claims and outcomes are written."""
    observer.execute(
        "create or replace function public.note_group() returns trigger language plpgsql security definer as $$ begin "
        "insert into public.group_note values (tg_argv[0], current_setting('synchronous_commit')); "
        "return null; end $$"
    )
    observer.execute("create table if not exists public.group_note (what text, setting text)")
    observer.execute("truncate public.group_note")
    tables = [f"{what}_{number}" for what in ("claim", "outcome") for number in (0, 1)]
    for table in tables:
        observer.execute(
            f"create trigger note after insert on sluice.{table} "
            f"for each row execute function public.note_group('{table.partition('_')[0]}')"
        )
    yield lambda: rows(observer, "select what, setting from public.group_note")
    for table in tables:
        observer.execute(f"drop trigger note on sluice.{table}")


@pytest.mark.parametrize("synchronous", [True, False])
def test_on_a_pool_only_the_claim_commits_asynchronously(
    make, shared_url, group_of, commits, synchronous
):
    clients = make.pool(shared_url, options="-c synchronous_commit=local")
    group = group_of(clients)

    group.accept(group.claim(2, synchronous=synchronous))

    assert commits() == [("claim", "off"), ("outcome", "local")]
    assert clients.value("show synchronous_commit") == "local"


@pytest.mark.parametrize(("synchronous", "setting"), [(True, "local"), (False, "off")])
def test_on_a_connection_it_does_on_request(
    make, shared_url, group_of, commits, synchronous, setting
):
    clients = make.connection(shared_url, autocommit=True, options="-c synchronous_commit=local")
    group = group_of(clients)

    group.accept(group.claim(2, synchronous=synchronous))

    assert commits() == [("claim", setting), ("outcome", "local")]
    assert clients.value("show synchronous_commit") == "local"


def test_in_the_callers_transaction_a_claim_leaves_synchronous_commit_alone(caller, group_of):
    assert len(group_of(caller).claim(5)) == 3

    assert caller.value("show synchronous_commit") == "local"


def test_each_event_goes_to_one_of_many_sessions(make, shared_url, group_of, log_name, observer):
    observer.execute(
        "select count(pgq.insert_event(%s, 't', n::text)) from generate_series(1, 197) as n",
        [log_name],
    )
    groups = [group_of(make.pool(shared_url)) for _ in range(3)]
    claimed = []
    while events := groups[len(claimed) % 3].claim(7):
        claimed += events
        groups[0].accept(events)

    assert len(claimed) == len({event.ev_id for event in claimed}) == 200
    with psycopg.connect(shared_url) as connection:
        assert settled(connection, log_name) == []
