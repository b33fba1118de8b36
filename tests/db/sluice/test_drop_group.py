"""sluice.drop_group: it removes a share group and keeps its dead letters."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value
from support.log import error_of, tick
from support.share_groups import (
    acknowledge,
    claim,
    claimed,
    create_group,
    dead,
    info,
    rotate,
    send,
    take_all,
)

CALL = "select sluice.drop_group('changes', 'workers')"


def test_it_says_whether_there_was_one(connection, group):
    assert [value(connection, CALL) for _ in range(2)] == [True, False]


def test_nothing_of_it_is_left_but_its_dead(connection, group):
    send(connection, *"ab")
    (event,) = claim(connection)
    acknowledge(connection, event.claim_id, "reject")
    (held,) = claim(connection)

    connection.execute(CALL)

    assert rows(connection, "select * from pgq.get_consumer_info()") == []
    assert rows(connection, "select * from sluice.list_groups()") == []
    assert [row[0] for row in dead(connection)] == [1]
    for call in (
        "claim('changes', 'workers')",
        f"acknowledge('changes', 'workers', {held.claim_id})",
        f"renew('changes', 'workers', {held.claim_id})",
        "list_claims('changes', 'workers')",
        "list_groups('changes', 'workers')",
    ):
        assert error_of(connection, f"select sluice.{call}")[0] == "SG001"


def test_rotation_does_not_wait_for_it_any_more(connection, group):
    send(connection, "a")
    for _ in range(2):
        tick(connection)
        rotate(connection)
    assert rotate(connection)[0] == ("kept", "not yet read by workers")

    connection.execute(CALL)

    tick(connection)
    assert rotate(connection)[0] == ("reclaimed", None)


def test_another_one_by_its_name_begins_anew(connection, group):
    send(connection, *"abc")
    (held,) = claim(connection)
    (again,) = claim(connection)
    acknowledge(connection, again.claim_id, "release")

    connection.execute(CALL)
    create_group(connection)

    assert error_of(
        connection, "select sluice.acknowledge('changes', 'workers', %s)", held.claim_id
    )[0] in ("SG002", "SG003")
    assert info(connection).leased == 0
    assert take_all(connection) == [1, 2, 3]


def test_the_other_groups_stay(connection, group):
    create_group(connection, "others")
    send(connection, *"ab")
    (event,) = claim(connection, group="others")

    connection.execute(CALL)

    assert acknowledge(connection, event.claim_id, group="others") == 1
    assert claimed(connection, group="others") == [2]


def test_it_can_be_rolled_back(connection, group):
    send(connection, *"ab")
    (event,) = claim(connection)
    with connection.transaction(force_rollback=True):
        connection.execute(CALL)

    assert claimed(connection) == [2]
    assert acknowledge(connection, event.claim_id) == 1


def test_a_group_goes_with_its_log(connection, group):
    assert error_of(connection, "select pgq.drop_queue('changes')")[0] == "PQ005"

    connection.execute("select pgq.drop_queue('changes', true)")

    assert rows(connection, "select * from sluice.share_group") == []


def test_a_consumer_that_is_no_group_stays(connection, group):
    connection.execute("select pgq.register_consumer('changes', 'lake')")

    assert value(connection, "select sluice.drop_group('changes', 'lake')") is False
    assert value(connection, "select pgq.unregister_consumer('changes', 'lake')") == 1


def test_an_unknown_log_is_named(connection, group):
    assert error_of(connection, "select sluice.drop_group('none', 'workers')")[0] == "PQ001"
    assert value(connection, "select sluice.drop_group('changes', null)") is False


@pytest.mark.parametrize("member", ["pgq_admin", "sluice_admin"])
def test_administrators_drop(connection, group, as_member, member):
    assert as_member(member, CALL) == [(True,)]


@pytest.mark.parametrize(
    "member", ["pgq_reader", "pgq_writer", "sluice_reader", "sluice_writer", "sluice_monitor"]
)
def test_other_roles_cannot_drop(connection, group, as_member, member):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member(member, CALL)
