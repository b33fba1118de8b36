"""Truncation of share-group ledgers during claims and acknowledgements: no outcome is lost.

For each safeguard, a variant with a planted bug shows that its removal loses data.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

from support import replace_in, rows, value, wait_for_lock, wait_until

EMPTY = "sluice._maintain_ledgers(bigint)"


def plant(connection, *changes, function=EMPTY):
    for old, new in changes:
        replace_in(connection, function, old, new)


@pytest.fixture
def group(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "select sluice.create_group('changes', 'mail', '{\"backoff_base\": \"0 s\"}')"
    )
    # A wait here would be a deadlock with the test itself.
    connection.execute("set lock_timeout = '10 s'")
    insert(connection, 5)


def insert(session, events=1):
    session.execute(
        "select pgq.insert_event('changes', 't', n::text) from generate_series(1, %s) as n",
        [events],
    )


def claim(session, qty=1, lease=None, group="mail"):
    """Return the id of a new claim and the ids of its events."""
    found = rows(
        session,
        "select claim_id, ev_id from sluice.claim('changes', %s, %s, %s::interval)",
        group, qty, lease,
    )  # fmt: skip
    return (found[0][0] if found else None), [ev_id for _, ev_id in found]


def acknowledge(session, claim_id, outcome="accept", ev_ids=None):
    return value(
        session,
        "select sluice.acknowledge('changes', 'mail', %s, %s, %s::bigint[])",
        claim_id, outcome, ev_ids,
    )  # fmt: skip


def forget_kept(session):
    """Reset the threshold, so that the next maintenance truncates the ledgers."""
    session.execute("update sluice.ledger set kept_bytes = 0")


def empty(session):
    """Truncate the ledgers, however small, and return the result."""
    return rows(session, "select * from sluice._maintain_ledgers(0)")[0]


def open_claims(session):
    return rows(
        session,
        "select claim_id, events, settled from sluice.list_claims('changes', 'mail') order by 1",
    )


def locked_by(session):
    return ("kept", f"locked by pid {session.info.backend_pid}")


@contextmanager
def in_background(work, *arguments):
    """Run a function in a thread; append its result or error to the list."""
    result: list[object] = []

    def run():
        try:
            result.append(work(*arguments))
        except psycopg.Error as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield result
    thread.join(30)
    assert not thread.is_alive()


# The planted bug: a lock that conflicts with no session, so that only TRUNCATE waits, after the
# copy.
WEAK_LOCK = ("'access exclusive'", "'access share'")


def test_truncation_keeps_acknowledgements_of_an_open_transaction(database, connection, group):
    claim_id, _ = claim(connection)
    with database.connect(autocommit=False) as consumer:
        acknowledge(consumer, claim_id)

        assert empty(connection) == locked_by(consumer)
        consumer.commit()

    assert empty(connection) == ("emptied", None)
    assert open_claims(connection) == []


def test_an_acknowledgement_is_lost_without_the_lock(database, connection, group):
    plant(connection, WEAK_LOCK)
    claim_id, _ = claim(connection)
    with database.connect(autocommit=False) as consumer, database.connect() as maintainer:
        acknowledge(consumer, claim_id)
        with in_background(empty, maintainer) as result:
            wait_for_lock(connection, maintainer)
            consumer.commit()

    assert result == [("emptied", None)]
    assert len(open_claims(connection)) == 1, "the planted bug must lose the acknowledgement"


def test_events_claimed_by_an_open_transaction_are_not_claimed_twice(database, connection, group):
    with database.connect(autocommit=False) as consumer:
        _, first = claim(consumer, 2)
        assert empty(connection) == locked_by(consumer)
        consumer.commit()

    assert empty(connection) == ("emptied", None)
    _, second = claim(connection, 5)
    assert (first, second) == ([1, 2], [3, 4, 5])


def test_events_are_handed_out_twice_without_the_lock(database, connection, group):
    plant(connection, WEAK_LOCK)
    with database.connect(autocommit=False) as consumer, database.connect() as maintainer:
        _, first = claim(consumer, 2)
        with in_background(empty, maintainer):
            wait_for_lock(connection, maintainer)
            consumer.commit()

    _, second = claim(connection, 5)
    assert set(first) & set(second), "the planted bug must hand out events twice"


@pytest.fixture
def halfway(database, connection, group):
    """A held claim, and a session that truncated the ledgers and has not committed yet."""
    claim_id, _ = claim(connection, 2)
    with database.connect(autocommit=False) as maintainer:
        assert empty(maintainer) == ("emptied", None)
        yield claim_id, maintainer


def test_an_acknowledgement_that_waited_finds_the_claim_where_it_is_now(
    database, connection, halfway
):
    claim_id, maintainer = halfway
    with database.connect() as consumer, in_background(acknowledge, consumer, claim_id) as result:
        wait_for_lock(connection, consumer)
        maintainer.commit()

    assert result == [2]
    assert open_claims(connection) == []


def test_a_claim_that_waited_goes_on_from_the_last_one(database, connection, halfway):
    _, maintainer = halfway
    with database.connect() as consumer, in_background(claim, consumer, 2) as result:
        wait_for_lock(connection, consumer)
        maintainer.commit()

    assert result[0][1] == [3, 4]
    assert claim(connection, 2)[1] == [5]


def test_a_claim_that_waited_is_handed_out_again_when_it_does_not_look_again(
    database, connection, halfway
):
    plant(
        connection,
        ("exit when v_is_first = ((select l.number from sluice.ledger as l) = 0);", "exit;"),
        function="sluice.claim(text, text, integer, interval, boolean, text[], boolean)",
    )
    _, maintainer = halfway
    with database.connect() as consumer, in_background(claim, consumer, 2) as result:
        wait_for_lock(connection, consumer)
        maintainer.commit()

    assert result[0][1] == [3, 4]
    assert claim(connection, 2)[1] == [3, 4], "the planted bug must hand out events twice"


def test_claims_go_astray_when_the_newest_is_not_kept(database, connection, group):
    plant(connection, ("c.claim_id = n.claim_id\n", "false\n"))
    claim_id, _ = claim(connection, 2)
    acknowledge(connection, claim_id)
    with database.connect(autocommit=False) as maintainer, database.connect() as consumer:
        empty(maintainer)
        with in_background(claim, consumer, 2) as result:
            wait_for_lock(connection, consumer)
            maintainer.commit()

    assert result[0] == (None, []) or isinstance(result[0], psycopg.Error)


def test_a_held_claim_is_forgotten_when_only_the_newest_is_kept(connection, group):
    plant(connection, ("c.events + c.redeliveries > (", "0 > ("))
    claim_id, _ = claim(connection, 2)
    claim(connection, 1)
    empty(connection)

    with pytest.raises(psycopg.Error, match="is no longer held"):
        acknowledge(connection, claim_id)


def create_other(session):
    session.execute("select sluice.create_group('changes', 'other', '{\"start\": \"earliest\"}')")


def create_in_a_truncated_table(database, connection):
    """Create a group whose first claim is written to a table that was truncated meanwhile."""
    with database.connect(autocommit=False) as maintainer, database.connect() as creator:
        empty(maintainer)
        with in_background(create_other, creator):
            wait_for_lock(connection, creator)
            maintainer.commit()
    assert rows(connection, "select number from sluice.ledger") == [(1,)]
    assert value(connection, "select count(*) from sluice.claim_0") == 1


@pytest.mark.slow
def test_a_row_in_a_table_that_is_not_the_current_one_counts(database, connection, group):
    create_in_a_truncated_table(database, connection)

    for number in (0, 1, 0):
        forget_kept(connection)
        assert empty(connection) == ("emptied", None)
        assert rows(connection, "select number from sluice.ledger") == [(number,)]
    assert claim(connection, 9, group="other")[1] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_row_in_a_table_that_is_not_the_current_one_is_lost_when_that_is_taken_for_empty(
    database, connection, group
):
    create_in_a_truncated_table(database, connection)
    plant(connection, ("    execute format(\n        'with newest", "    truncate sluice.claim_0;\n    execute format(\n        'with newest"))  # fmt: skip

    forget_kept(connection)
    empty(connection)

    with pytest.raises(psycopg.Error):  # the planted bug must lose the group's row
        claim(connection, 9, group="other")


def retry_unread(database, connection, late):
    """Retry events without a later claim; with `late`, commit after a claim read the backlog."""
    claim_id, _ = claim(connection, 2)
    with database.connect(autocommit=False) as consumer:
        acknowledge(consumer, claim_id, "retry")
        if late:
            _, others = claim(connection, 1)
            assert others == [3]
        consumer.commit()


@pytest.mark.parametrize("late", [False, True], ids=["new", "late"])
def test_unread_acknowledgements_are_read_by_the_next_claim(database, connection, group, late):
    retry_unread(database, connection, late)

    assert empty(connection) == ("emptied", None)

    assert claim(connection, 2)[1] == [1, 2]


def test_removing_settled_claims_loses_unread_acknowledgements(database, connection, group):
    plant(connection, ("and (not o.is_backlog or pg_visible_in_snapshot(o.outcome_txid, n.backlog_snapshot))", ""))  # fmt: skip
    retry_unread(database, connection, late=True)

    empty(connection)

    assert claim(connection, 2)[1] == [4, 5], "the planted bug must lose the retry"


def test_rest_of_a_partly_settled_claim_expires(connection, group):
    claim_id, _ = claim(connection, 3, lease="10 ms")
    acknowledge(connection, claim_id, ev_ids=[1])

    empty(connection)

    assert open_claims(connection) == [(claim_id, 3, 1)]
    connection.execute("select pg_sleep(0.02)")
    assert claim(connection, 2)[1] == [2, 3]


WITHOUT_OUTCOMES = ("o.claim_id = (n.claim).claim_id", "false")


def test_settled_events_are_redelivered_when_outcomes_are_not_kept(connection, group):
    plant(connection, WITHOUT_OUTCOMES)
    claim_id, _ = claim(connection, 3, lease="10 ms")
    acknowledge(connection, claim_id, ev_ids=[1])

    empty(connection)

    connection.execute("select pg_sleep(0.02)")
    assert claim(connection, 3)[1] == [1, 2, 3], "the planted bug must deliver what is settled"


def renew_and_outlive(connection):
    claim_id, _ = claim(connection, 2, lease="10 ms")
    connection.execute("select sluice.renew('changes', 'mail', %s, '1 hour')", [claim_id])
    empty(connection)
    connection.execute("select pg_sleep(0.02)")
    return claim(connection, 2)[1]


@pytest.mark.slow
def test_a_renewed_lease_stays_renewed(connection, group):
    assert renew_and_outlive(connection) == [3, 4]


def test_a_renewal_is_lost_when_outcomes_are_not_kept(connection, group):
    plant(connection, WITHOUT_OUTCOMES)
    assert renew_and_outlive(connection) == [1, 2], "the planted bug must lose the renewal"


def redeliveries(connection):
    """Truncate the ledgers while event 1 waits for its retry and 2 and 3 are redelivered."""
    claim_id, _ = claim(connection, 3)
    value(
        connection,
        "select sluice.acknowledge('changes', 'mail', %s, 'retry', '{1}', interval '1 hour')",
        claim_id,
    )
    acknowledge(connection, claim_id, "release")
    assert claim(connection, 2, lease="10 ms")[1] == [2, 3]
    empty(connection)
    connection.execute("select pg_sleep(0.02)")
    return claim(connection, 2)[1], value(
        connection, "select retrying from sluice.list_groups('changes', 'mail')"
    )


def test_redeliveries_are_kept_that_are_claimed_or_yet_to_come(connection, group):
    assert redeliveries(connection) == ([2, 3], 1)


def test_redeliveries_yet_to_come_are_lost_when_not_kept(connection, group):
    plant(connection, ("> (n.upto_due, n.upto_redelivery)", "> (''infinity'', 0)"))
    assert redeliveries(connection)[1] == 0, "the planted bug must lose an event"


def test_redeliveries_in_a_claim_are_lost_when_not_kept(connection, group):
    plant(connection, ("> ((n.claim).from_due, (n.claim).from_redelivery)", "> (''infinity'', 0)"))
    assert redeliveries(connection)[0] == [4, 5], "the planted bug must lose events"


OLD_SNAPSHOT = pytest.mark.parametrize(
    "call",
    [
        "select sluice.acknowledge('changes', 'mail', %s)",
        "select sluice.renew('changes', 'mail', %s)",
    ],
    ids=["acknowledge", "renew"],
)


def settle_with_an_old_snapshot(database, connection, call):
    claim_id, _ = claim(connection, 2)
    with database.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        assert empty(connection) == ("emptied", None)
        old.execute(call, [claim_id])


@OLD_SNAPSHOT
def test_an_old_snapshot_gets_a_serialization_failure(database, connection, group, call):
    with pytest.raises(psycopg.errors.SerializationFailure):
        settle_with_an_old_snapshot(database, connection, call)


@pytest.mark.slow
@OLD_SNAPSHOT
def test_an_old_snapshot_gets_a_wrong_answer_without_a_look_at_the_ledger(
    database, connection, group, call
):
    plant(
        connection,
        ("perform from sluice.ledger as l for share;", ""),
        function="sluice._hold_claim(sluice.share_group, bigint)",
    )
    with pytest.raises(psycopg.Error, match="has no claim|is not held"):
        settle_with_an_old_snapshot(database, connection, call)


def maintain_twice(database, connection):
    """Run maintenance twice at once; the second one waits, as the ledgers are far too large."""
    claim(connection, 2)
    with database.connect(autocommit=False) as first, database.connect() as second:
        # A longer wait, so that the first can commit.
        replace_in(connection, EMPTY, "v_wait_ms_max constant integer := 100", "v_wait_ms_max constant integer := 10000")  # fmt: skip
        assert empty(first) == ("emptied", None)
        with in_background(empty, second) as result:
            wait_for_lock(connection, second)
            first.commit()
    assert claim(connection, 9)[1] == [3, 4, 5]
    return result[0]


def test_of_two_maintainers_one_empties(database, connection, group):
    assert maintain_twice(database, connection) == ("kept", "another session did it")


def test_of_two_maintainers_both_think_they_did_without_a_second_look(database, connection, group):
    plant(connection, ("if not found then", "if false then"))
    assert maintain_twice(database, connection) == ("emptied", None)


def consume_under_emptying(database, events, seconds):
    """Consume with all outcomes while the ledgers are truncated constantly; return accepted ids."""
    accepted: list[int] = []
    turns: list[str] = []
    failed: list[BaseException] = []
    end = time.monotonic() + seconds

    def consume(number):
        try:
            with database.connect() as session:
                step = number
                while time.monotonic() < end or step % 50:
                    step += 1
                    with session.transaction():
                        claim_id, ev_ids = claim(session, 3, lease="20 ms")
                    if claim_id is None or step % 7 == 0:
                        continue
                    try:
                        with session.transaction():
                            if step % 5 == 0:
                                acknowledge(session, claim_id, "release", ev_ids[:1])
                            acknowledge(session, claim_id)
                        accepted.extend(ev_ids[1:] if step % 5 == 0 else ev_ids)
                    except psycopg.Error as error:
                        if error.sqlstate != "SG002":  # the lease had expired
                            raise
        except BaseException as error:
            failed.append(error)

    def maintain():
        try:
            with database.connect() as session:
                while time.monotonic() < end:
                    forget_kept(session)
                    turns.append(empty(session)[0])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=consume, args=[n]) for n in range(3)]
    threads.append(threading.Thread(target=maintain))
    for thread in threads:
        thread.start()
    with database.connect() as producer:
        for _ in range(events // 10):
            insert(producer, 10)
    for thread in threads:
        thread.join(60)
    assert not failed, failed
    assert turns.count("emptied") > 10
    with database.connect() as session:

        def rest():
            claim_id, ev_ids = claim(session, 100)
            if claim_id is not None:
                acknowledge(session, claim_id)
                accepted.extend(ev_ids)
            return (
                value(
                    session,
                    "select lag_events + leased + retrying from sluice.list_groups('changes', 'mail')",
                )
                == 0
            )

        wait_until(rest, "all events to be settled")
    return accepted


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_settled_twice_while_the_ledgers_are_emptied_all_the_time(
    database, connection, group
):
    connection.execute(
        """select sluice.set_group_options('changes', 'mail', '{"max_deliveries": 100000, "max_attempts": 100000}')"""
    )

    accepted = consume_under_emptying(database, 1000, seconds=3.0)

    assert value(connection, "select count(*) from sluice.dead_letter") == 0
    assert sorted(accepted) == list(range(1, 1006))


def test_rows_of_a_dropped_group_go(connection, group):
    create_other(connection)
    claim(connection, 2, group="other")
    connection.execute("select sluice.drop_group('changes', 'other')")

    empty(connection)

    assert value(connection, "select count(distinct group_id) from sluice.claim") == 1


@pytest.mark.slow
def test_ledger_is_rewritten_only_after_the_kept_rows_doubled(connection, group):
    insert(connection, 1000)
    for _ in range(300):
        claim(connection)
    assert empty(connection) == ("emptied", None)
    kept = value(connection, "select kept_bytes from sluice.ledger")

    claims = 0
    while empty(connection) == (None, None):
        claim(connection)
        claims += 1
    assert claims > 150
    assert value(connection, "select kept_bytes from sluice.ledger") > 1.5 * kept
