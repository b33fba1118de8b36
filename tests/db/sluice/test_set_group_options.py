"""sluice.set_group_options: changes to the settings of a share group in use."""

from __future__ import annotations

import json
from datetime import timedelta

import psycopg
import pytest

from support import rows
from support.share_groups import (
    acknowledge,
    claim,
    dead,
    let_pass,
    open_claims,
    refused,
    send,
)

CALL = "select sluice.set_group_options('changes', 'workers', %s)"
COLUMNS = "lease, max_attempts, max_deliveries, backoff, backoff_base, backoff_max, backoff_jitter"


def settings(connection: psycopg.Connection) -> dict[str, object]:
    (row,) = rows(connection, f"select {COLUMNS} from sluice.list_groups()")
    return dict(zip(COLUMNS.split(", "), row, strict=True))


@pytest.mark.parametrize(
    ("name", "given", "is_now"),
    [
        ("lease", "1 minute", timedelta(minutes=1)),
        ("max_attempts", 9, 9),
        ("max_deliveries", 90, 90),
        ("backoff", "constant", "constant"),
        ("backoff_base", "2 seconds", timedelta(seconds=2)),
        ("backoff_max", "3 minutes", timedelta(minutes=3)),
        ("backoff_jitter", True, True),
    ],
)
def test_one_is_changed_and_the_others_stay(connection, group, name, given, is_now):
    before = settings(connection)

    connection.execute(CALL, (json.dumps({name: given}),))

    assert settings(connection) == before | {name: is_now}
    assert before[name] != is_now


def test_none_changes_none(connection, group):
    before = settings(connection)

    connection.execute(CALL, ("{}",))

    assert settings(connection) == before


def test_a_claim_that_is_out_keeps_its_lease(connection, group):
    send(connection, *"ab")
    (event,) = claim(connection)

    connection.execute(CALL, ('{"lease": "10 hours"}',))

    assert open_claims(connection)[event.claim_id].lease_until == event.lease_until
    (later,) = claim(connection)
    assert later.lease_until - event.lease_until > timedelta(hours=9)


def test_fewer_attempts_hold_from_the_next_failure_on(connection, group):
    send(connection, "a")
    for _ in range(3):
        (event,) = claim(connection)
        acknowledge(connection, event.claim_id, "retry", delay="0")
    connection.execute(CALL, ('{"max_attempts": 2}',))

    (event,) = claim(connection)
    assert event.attempt == 4
    acknowledge(connection, event.claim_id, "retry", delay="0")
    assert [row[0] for row in dead(connection)] == [1]


def test_a_backoff_that_changed_holds_for_pauses_that_have_not_begun(connection, group):
    connection.execute(CALL, ('{"backoff_base": "1 hour", "backoff_max": "2 hours"}',))
    send(connection, "a")
    (event,) = claim(connection)
    acknowledge(connection, event.claim_id, "retry")

    let_pass(connection, "59 minutes")
    assert claim(connection) == []
    let_pass(connection, "2 minutes")
    assert len(claim(connection)) == 1


@pytest.mark.parametrize("name", ["key", "start", "when_waiting"])
def test_options_fixed_at_creation_are_unchanged(connection, group, name):
    error = refused(connection, CALL, json.dumps({name: "block", "lease": "1 hour"}))

    assert (error.sqlstate, error.diag.message_primary) == (
        "SG004",
        f"the option '{name}' of a share group cannot change",
    )
    assert error.diag.message_hint == (
        "create another group with it; to drop this one gives up its events that wait, its retries and its position"
    )
    assert settings(connection)["lease"] == timedelta(seconds=30)


@pytest.mark.parametrize(
    "options",
    [
        {"lease": "0"},
        {"max_attempts": 0},
        {"max_deliveries": -1},
        {"backoff": "x"},
        {"unknown": 1},
        {"lost": None},
        {"group_id": 5},
    ],
)
def test_invalid_option_is_refused(connection, group, options):
    assert refused(connection, CALL, json.dumps(options)).sqlstate == "22023"


@pytest.mark.parametrize("options", ["null", "[]", "5"])
def test_options_that_are_no_object_are_refused(connection, group, options):
    assert refused(connection, CALL, options).sqlstate == "22023"


def test_null_options_are_refused(connection, group):
    assert refused(connection, CALL, None).sqlstate in ("22004", "22023")


def test_unknown_names_are_named(connection, group):
    query = "select sluice.set_group_options({}, '{{}}')"
    assert refused(connection, query.format("'none', 'workers'")).sqlstate == "PQ001"
    assert refused(connection, query.format("'changes', 'none'")).sqlstate == "SG001"


@pytest.mark.parametrize("member", ["pgq_admin", "sluice_admin"])
def test_administrators_change_them(connection, group, as_member, member):
    as_member(member, "select sluice.set_group_options('changes', 'workers', '{}')")


@pytest.mark.parametrize(
    "member", ["pgq_reader", "pgq_writer", "sluice_reader", "sluice_writer", "sluice_monitor"]
)
def test_other_roles_cannot_change_options(connection, group, as_member, member):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member(member, "select sluice.set_group_options('changes', 'workers', '{}')")
