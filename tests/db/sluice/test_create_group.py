"""sluice.create_group: start positions, options and errors."""

from __future__ import annotations

import json
from datetime import timedelta

import psycopg
import pytest

from support import rows, value
from support.log import error_of, tick
from support.share_groups import (
    acknowledge,
    claim,
    claimed,
    create_group,
    make_log,
    refused,
    rotate,
    send,
    take_all,
)

CALL = "select sluice.create_group('changes', 'workers', %s)"


@pytest.fixture
def log(connection) -> None:
    make_log(connection)


def refusal(connection: psycopg.Connection, options: object) -> psycopg.Error:
    return refused(connection, CALL, json.dumps(options))


def settings(connection: psycopg.Connection) -> tuple:
    (row,) = rows(
        connection,
        """select lease, max_attempts, max_deliveries, backoff, backoff_base, backoff_max, backoff_jitter,
            key, when_waiting, lost
        from sluice.list_groups()""",
    )
    return row


def test_it_says_whether_it_made_one(connection, log):
    query = "select sluice.create_group('changes', 'workers')"
    assert [value(connection, query) for _ in range(3)] == [True, False, False]


def test_the_defaults(connection, log):
    connection.execute("select sluice.create_group('changes', 'workers')")

    assert settings(connection) == (
        timedelta(seconds=30), 5, 15, "exponential", timedelta(seconds=1), timedelta(minutes=10), True,
        None, "block", None,
    )  # fmt: skip


def test_all_options(connection, log):
    create_group(
        connection,
        lease="1 minute",
        max_attempts=7,
        max_deliveries=70,
        backoff="linear",
        backoff_base="2 seconds",
        backoff_max="3 minutes",
        backoff_jitter=False,
    )

    assert settings(connection) == (
        timedelta(minutes=1), 7, 70, "linear", timedelta(seconds=2), timedelta(minutes=3), False,
        None, "block", None,
    )  # fmt: skip


def test_deliveries_are_three_for_each_attempt(connection, log):
    create_group(connection, max_attempts=4)

    assert settings(connection)[1:3] == (4, 12)


def test_null_stands_for_the_default(connection, log):
    create_group(connection, lease=None, max_attempts=None, backoff=None)

    assert settings(connection)[0:4] == (timedelta(seconds=30), 5, 15, "exponential")


# Start position


@pytest.fixture
def events(connection, log) -> list[int]:
    """The ticks 2 to 4, two events before each, and two events after the last tick."""
    ticks = []
    for _ in range(3):
        send(connection, *"ab")
        ticks.append(tick(connection))
    send(connection, *"ab")
    return ticks


@pytest.mark.parametrize("options", ["{}", '{"start": "latest"}'])
def test_group_starts_at_the_end_by_default(connection, events, options):
    connection.execute(CALL, (options,))

    assert take_all(connection) == []
    send(connection, "c")
    assert take_all(connection) == [9]


def test_events_uncommitted_at_creation_are_delivered(database, connection, events):
    create_group(connection, "first")  # builds the indexes and waits for writers
    with database.connect(autocommit=False) as writer:
        send(writer, "c")
        connection.execute(CALL, ("{}",))
        writer.commit()

    assert take_all(connection) == [9]


@pytest.mark.slow
def test_only_the_first_group_of_a_log_waits_for_its_writers_and_not_for_long(
    database, connection, events
):
    with database.connect(autocommit=False) as writer:
        send(writer, "c")
        assert error_of(connection, CALL, "{}")[0] == "SG005"
        writer.commit()
        assert create_group(connection)
        send(writer, "d")
        assert create_group(connection, "second")
        writer.commit()


def test_group_starts_at_the_beginning(connection, events):
    connection.execute(CALL, ('{"start": "earliest"}',))

    assert take_all(connection) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_beginning_is_the_oldest_event_that_is_kept(connection, events):
    for _ in range(3):
        tick(connection)
        rotate(connection)
    connection.execute(CALL, ('{"start": "earliest"}',))

    assert take_all(connection) == []


@pytest.mark.parametrize(("place", "first"), [(0, 3), (1, 5), (2, 7)])
def test_group_starts_after_a_tick(connection, events, place, first):
    connection.execute(CALL, (json.dumps({"start": {"tick": events[place]}}),))

    assert take_all(connection) == list(range(first, 9))


def test_group_starts_at_a_time(connection, events):
    (time,) = rows(
        connection,
        "select (tick_time + interval '1 microsecond')::text from pgq.tick where tick_id = %s",
        events[1],
    )[0]
    create_group(connection, "b", start={"time": time})
    create_group(connection, "c", start={"time": "2001-01-01T00:00:00Z"})
    create_group(connection, "d", start={"time": "2999-01-01T00:00:00Z"})

    assert take_all(connection, group="b") == [5, 6, 7, 8]
    assert take_all(connection, group="c") == [1, 2, 3, 4, 5, 6, 7, 8]
    assert take_all(connection, group="d") == [7, 8]


@pytest.mark.parametrize("start", [{"tick": 99}, {"tick": 0}, {"tick": -1}])
def test_a_tick_that_is_not_kept_is_refused(connection, events, start):
    error = refusal(connection, {"start": start})

    assert error.sqlstate == "PQ004"
    assert rows(connection, "select * from sluice.share_group") == []


@pytest.mark.parametrize(
    "start",
    ["now", "", 5, [], {}, {"tick": "5"}, {"tick": None}, {"time": 5}, {"offset": 5}, True, None],
)
def test_any_other_start_is_refused(connection, log, start):
    error = refusal(connection, {"start": start})

    assert error.sqlstate == "22023"
    assert error.diag.message_primary == f"a share group cannot start at {json.dumps(start)}"
    assert error.diag.message_hint.startswith('use "latest", "earliest"')


@pytest.mark.parametrize("start", [{"time": "soon"}, {"tick": 1.5}])
def test_a_start_of_the_wrong_kind_is_refused(connection, log, start):
    assert refusal(connection, {"start": start}).sqlstate.startswith("22")
    assert rows(connection, "select * from sluice.share_group") == []


# The group as a consumer


def test_it_is_a_consumer_of_the_log(connection, log):
    create_group(connection)

    assert rows(connection, "select queue_name, consumer_name from pgq.get_consumer_info()") == [
        ("changes", "workers")
    ]
    assert value(connection, "select sub_is_group from pgq.subscriber") is True


def test_rotation_waits_for_it(connection, log):
    create_group(connection)
    send(connection, "a")
    for _ in range(3):
        tick(connection)
        steps = rotate(connection)

    assert steps[0] == ("kept", "not yet read by workers")


@pytest.mark.parametrize(
    "call",
    [
        "pgq.next_batch('changes', 'workers')",
        "pgq.next_batch_info('changes', 'workers')",
        "pgq.next_batch_custom('changes', 'workers', null, null, null)",
        "pgq.unregister_consumer('changes', 'workers')",
        "pgq.register_consumer_at('changes', 'workers', 1)",
        "sluice.log_start('changes', 'workers', 'earliest')",
        "sluice.log_commit('changes', 'workers', 1)",
        "pgq_coop.register_subconsumer('changes', 'workers', 'one')",
        "pgq_coop.next_batch('changes', 'workers', 'one')",
    ],
)
def test_functions_that_move_a_consumer_leave_a_group_alone(connection, log, call):
    create_group(connection)

    error = refused(connection, f"select {call}")

    assert (error.sqlstate, error.diag.message_primary) == (
        "PQ004",
        "consumer workers on queue changes is a share group",
    )
    assert "sluice.claim('changes', 'workers')" in error.diag.message_hint


def test_subscription_of_a_group_cannot_be_updated(connection, log):
    create_group(connection)

    error = refused(connection, "update pgq.subscription set sub_last_tick = 1")

    assert error.sqlstate == "PQ004"


def test_to_register_it_once_more_changes_nothing(connection, log):
    create_group(connection)

    assert value(connection, "select pgq.register_consumer('changes', 'workers')") == 0


def test_a_name_that_a_consumer_has_is_refused(connection, log):
    connection.execute("select pgq.register_consumer('changes', 'workers')")

    error = refusal(connection, {})

    assert (error.sqlstate, error.diag.message_primary) == (
        "SG004",
        "event log 'changes' has a consumer 'workers' already",
    )
    assert rows(connection, "select * from sluice.share_group") == []


def test_one_name_on_two_logs_is_two_groups(connection, log):
    make_log(connection, "second")
    create_group(connection)
    create_group(connection, log="second")
    send(connection, "a")

    assert claimed(connection, log="second") == []
    assert claimed(connection) == [1]


def test_group_is_created_on_a_log_with_consumers_and_events(connection, log):
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    send(connection, *"ab")
    tick(connection)
    create_group(connection)
    send(connection, "c")
    rotate(connection)
    send(connection, "d")

    assert take_all(connection) == [1, 2, 3, 4]


# Errors


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"lease": "0"}, "a lease of 00:00:00"),
        ({"lease": "-1 second"}, "a lease of -00:00:01"),
        ({"lease": "101 years"}, "a lease of 101 years"),
        ({"max_attempts": 0}, "max_attempts 0"),
        ({"max_deliveries": 0}, "max_deliveries 0"),
        ({"backoff": "none"}, "a backoff 'none'"),
        ({"backoff_base": "-1 second"}, "a backoff_base of -00:00:01"),
        ({"backoff_max": "-1 second"}, "a backoff_max of -00:00:01"),
        ({"when_waiting": "wait"}, "when_waiting 'wait'"),
    ],
)
def test_a_value_out_of_range_is_refused(connection, log, options, shown):
    error = refusal(connection, options)

    assert (error.sqlstate, error.diag.message_primary) == (
        "22023",
        f"a share group cannot have {shown}",
    )
    assert error.diag.message_hint


@pytest.mark.parametrize(
    "options",
    [{"lease": "soon"}, {"max_attempts": "many"}, {"max_attempts": 1.5}, {"backoff_jitter": 5}],
)
def test_a_value_of_the_wrong_kind_is_refused(connection, log, options):
    assert refusal(connection, options).sqlstate.startswith("22")


def test_an_unknown_option_is_named(connection, log):
    error = refusal(connection, {"lease": "1 minute", "retries": 5})

    assert (error.sqlstate, error.diag.message_primary) == (
        "22023",
        "a share group has no option 'retries'",
    )
    assert "max_attempts" in error.diag.message_hint


@pytest.mark.parametrize("name", ["group_id", "queue_id", "sub_key", "group_name", "lost", "owner"])
def test_columns_that_are_no_options_cannot_be_given(connection, log, name):
    assert refusal(connection, {name: None}).sqlstate == "22023"


@pytest.mark.parametrize("options", ["null", "[]", "5", '"end"'])
def test_options_that_are_no_object_are_refused(connection, log, options):
    error = refused(connection, CALL, options)

    assert (error.sqlstate, error.diag.message_primary) == (
        "22023",
        f"the options of a share group are {options}",
    )


def test_null_options_are_refused(connection, log):
    assert refused(connection, CALL, None).sqlstate in ("22004", "22023")


def test_other_options_of_a_group_that_is_there_are_named(connection, log):
    create_group(connection, max_attempts=7)

    error = refusal(connection, {"start": "latest", "max_attempts": 8})

    assert (error.sqlstate, error.diag.message_primary) == (
        "SG004",
        "share group 'workers' exists with another max_attempts",
    )
    assert error.diag.message_detail == "It is 7."
    assert error.diag.message_hint == "change it with sluice.set_group_options()"
    assert create_group(connection, max_attempts=7) is False
    assert create_group(connection) is False


def test_names_are_needed(connection, log):
    error = refused(connection, "select sluice.create_group('changes', null)")
    assert (error.sqlstate, error.diag.message_primary) == ("22004", "group name is null")
    assert error_of(connection, "select sluice.create_group('none', 'workers')")[0] == "PQ001"
    assert error_of(connection, "select sluice.create_group(null, 'workers')")[0] in (
        "PQ001",
        "22004",
    )


@pytest.mark.parametrize("name", ["with 'quotes' and \"more\"", "Ü", "x" * 500, "a.b"])
def test_any_name_will_do(connection, log, name):
    assert create_group(connection, name)
    send(connection, "a")

    (event,) = claim(connection, group=name)
    assert acknowledge(connection, event.claim_id, group=name) == 1
    assert value(connection, "select sluice.drop_group('changes', %s)", name) is True


def test_it_can_be_rolled_back(connection, log):
    with connection.transaction(force_rollback=True):
        create_group(connection)

    assert rows(connection, "select * from pgq.subscriber") == []
    assert create_group(connection)
    send(connection, "a")
    assert claimed(connection) == [1]


@pytest.mark.parametrize("member", ["pgq_admin", "sluice_admin"])
def test_administrators_create(connection, log, as_member, member):
    assert as_member(member, "select sluice.create_group('changes', 'workers')") == [(True,)]


@pytest.mark.parametrize(
    "member", ["pgq_reader", "pgq_writer", "sluice_reader", "sluice_writer", "sluice_monitor"]
)
def test_other_roles_cannot_create(connection, log, as_member, member):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member(member, "select sluice.create_group('changes', 'workers')")
