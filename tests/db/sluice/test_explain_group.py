"""Share groups and their keys."""

from __future__ import annotations

import psycopg
import pytest

from support import value
from support.explaining import causes, commands, explain, sentences
from support.share_groups import create_group, make_log


def explained(connection):
    return explain(connection, "explain_group", "changes", "workers")


def explained_key(connection):
    return explain(connection, "explain_key", "changes", "workers", "k")


def insert(connection, key="k"):
    return value(connection, "select pgq.insert_event('changes', %s, 'secret')", key)


def claim(connection, qty=10, lease="10 minutes"):
    return value(
        connection,
        "select max(claim_id) from sluice.claim('changes', 'workers', %s, %s::interval)",
        qty,
        lease,
    )


def state(facts):
    return facts[0].detail["state"]


def test_events_are_named_from_insert_to_acknowledgement(connection, group):
    assert causes(explained(connection)) == ["all claimed"]

    insert(connection)
    assert (state(explained(connection)), causes(explained(connection))) == (
        "behind",
        ["no worker"],
    )

    claim_id = claim(connection)
    assert causes(explained(connection)) == ["claim", "all claimed"]

    connection.execute("select sluice.acknowledge('changes', 'workers', %s, 'accept')", (claim_id,))
    assert causes(explained(connection)) == ["all claimed"]


def test_expired_lease_is_named_until_the_next_claim(connection, group):
    insert(connection)
    claim(connection, lease="1 microsecond")

    assert "expired claim" in causes(explained(connection))

    claim(connection)
    claim(connection)
    assert "expired claim" not in causes(explained(connection))


def test_open_transaction_that_holds_the_group_is_named(connection, group, database):
    insert(connection)
    claim(connection)
    with database.connect(autocommit=False) as other:
        claim(other)
        assert "group locked" in causes(explained(connection))
        other.rollback()

    assert "group locked" not in causes(explained(connection))


def test_pending_retry_is_the_next_change(connection, group):
    insert(connection)
    claim_id = claim(connection)
    connection.execute(
        "select sluice.acknowledge('changes', 'workers', %s, 'retry', null, '5 minutes'::interval)",
        (claim_id,),
    )
    claim(connection)

    assert "A redelivery, an expired lease or a delayed event can be claimed" in sentences(
        explained(connection), "next"
    )


@pytest.mark.parametrize(
    ("when_waiting", "cause", "of_key"),
    [
        ("block", "group key retrying", "key redelivered"),
        ("park", "group key parked", "group key parked"),
    ],
)
def test_key_is_named_while_its_event_waits(connection, when_waiting, cause, of_key):
    make_log(connection)
    create_group(connection, backoff_jitter=False, key="ev_type", when_waiting=when_waiting)
    insert(connection), insert(connection)
    assert state(explained_key(connection)) == "free"

    claim_id = claim(connection, 1)
    assert causes(explained_key(connection)) == ["key claimed"]

    connection.execute(
        "select sluice.acknowledge('changes', 'workers', %s, 'retry', null, '5 minutes'::interval)",
        (claim_id,),
    )
    claim(connection)

    assert cause in causes(explained(connection))
    assert of_key in causes(explained_key(connection))
    if when_waiting == "park":
        assert commands(explained_key(connection)) == ["pgsluice group unpark changes workers k"]
        connection.execute("select sluice.unpark_key('changes', 'workers', 'k')")
        assert "group key parked" not in causes(explained_key(connection))


def test_keys_are_hidden_from_monitors(connection, as_member):
    make_log(connection)
    create_group(connection, key="ev_type")
    insert(connection, "customer 5"), insert(connection, "customer 5")
    claim(connection, 1)
    claim(connection, 1)
    query = "select cause, detail::text from sluice.explain_group('changes', 'workers')"

    assert "customer 5" in str(as_member("sluice_reader", query))
    shown = str(as_member("sluice_monitor", query))
    assert "customer 5" not in shown
    assert "key claimed" in shown
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", "select * from sluice.explain_key('changes', 'workers', 'k')")


def test_group_that_does_not_exist_is_an_error(connection, group):
    with pytest.raises(psycopg.Error, match="event log 'changes' has no share group 'x'"):
        connection.execute("select * from sluice.explain_group('changes', 'x')")
