"""Share groups and their keys. Covers _explain_group_reason."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value
from support.share_groups import create_group, make_log

FACTS = "select section, fact, at, detail from sluice.explain_group('changes', 'workers') order by ordinal"
KEY = "select section, fact, at, detail from sluice.explain_key('changes', 'workers', 'k') order by ordinal"


def insert(connection, key="k"):
    return value(connection, "select pgq.insert_event('changes', %s, 'secret')", key)


def claim(connection, qty=10, lease="10 minutes"):
    return value(
        connection,
        "select max(claim_id) from sluice.claim('changes', 'workers', %s, %s::interval)",
        qty,
        lease,
    )


def causes(connection, query=FACTS):
    return [d["cause"] for section, *_, d in rows(connection, query) if section == "reason"]


def state(connection, query=FACTS):
    return rows(connection, query)[0][3]["state"]


def test_events_are_named_from_insert_to_acknowledgement(connection, group):
    assert causes(connection) == ["up to date"]

    insert(connection)
    assert (state(connection), causes(connection)) == ("behind", ["no worker"])

    claim_id = claim(connection)
    assert causes(connection) == ["lease", "up to date"]

    connection.execute("select sluice.acknowledge('changes', 'workers', %s, 'accept')", (claim_id,))
    assert causes(connection) == ["up to date"]


def test_expired_lease_is_named_until_the_next_claim(connection, group):
    insert(connection)
    claim(connection, lease="1 microsecond")

    assert "expired lease" in causes(connection)

    claim(connection)
    claim(connection)
    assert "expired lease" not in causes(connection)


def test_open_transaction_that_holds_the_group_is_named(connection, group, database):
    insert(connection)
    claim(connection)
    with database.connect(autocommit=False) as other:
        claim(other)
        assert "group locked" in causes(connection)
        other.rollback()

    assert "group locked" not in causes(connection)


def test_pending_retry_is_the_next_change(connection, group):
    insert(connection)
    claim_id = claim(connection)
    connection.execute(
        "select sluice.acknowledge('changes', 'workers', %s, 'retry', null, '5 minutes'::interval)",
        (claim_id,),
    )
    claim(connection)

    assert "A redelivery, an expired lease or a delayed event can be claimed" in str(
        [fact for section, fact, *_ in rows(connection, FACTS) if section == "next"]
    )


@pytest.mark.parametrize(
    ("when_waiting", "cause"), [("block", "key retrying"), ("park", "key parked")]
)
def test_key_is_named_while_its_event_waits(connection, when_waiting, cause):
    make_log(connection)
    create_group(connection, backoff_jitter=False, key="ev_type", when_waiting=when_waiting)
    insert(connection), insert(connection)
    assert state(connection, KEY) == "free"

    claim_id = claim(connection, 1)
    assert causes(connection, KEY) == ["key claimed"]

    connection.execute(
        "select sluice.acknowledge('changes', 'workers', %s, 'retry', null, '5 minutes'::interval)",
        (claim_id,),
    )
    claim(connection)

    assert cause in causes(connection)
    assert cause in causes(connection, KEY)
    if when_waiting == "park":
        (sql,) = (d["sql"] for *_, d in rows(connection, KEY) if "sql" in d)
        connection.execute(sql)
        assert "key parked" not in causes(connection, KEY)


def test_keys_are_hidden_from_monitors(connection, as_member):
    make_log(connection)
    create_group(connection, key="ev_type")
    insert(connection, "customer 5"), insert(connection, "customer 5")
    claim(connection, 1)
    claim(connection, 1)
    query = "select fact, detail::text from sluice.explain_group('changes', 'workers')"

    assert "customer 5" in str(as_member("sluice_reader", query))
    shown = str(as_member("sluice_monitor", query))
    assert "customer 5" not in shown
    assert "key claimed" in shown
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", KEY)


def test_group_that_does_not_exist_is_an_error(connection, group):
    with pytest.raises(psycopg.Error, match="event log 'changes' has no share group 'x'"):
        connection.execute("select * from sluice.explain_group('changes', 'x')")
