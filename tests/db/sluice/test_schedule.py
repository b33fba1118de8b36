"""sluice.schedule: new schedules, changes of existing ones, and errors.

Also covers _put_schedule and _require_schedule_settings.
"""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from support import rows, value
from support.schedules import due_since, fire, schedule, state

NEXT_YEAR = datetime(2100, 1, 1, tzinfo=UTC)


def refused(connection, **options):
    with pytest.raises(psycopg.Error) as caught:
        schedule(connection, **{"cron": "0 3 * * *", **options})
    return caught.value.diag.sqlstate, caught.value.diag.message_primary


def test_it_is_written_with_its_defaults_and_its_next_slot(orders):
    assert schedule(orders, message={"n": 1}, cron="0 3 * * *", time_zone="Europe/Berlin") is True

    ((*settings, starts_at, next_slot, due_at),) = rows(
        orders,
        "select name, target, queue_name, message, headers, event, cron, every, time_zone, catch_up, catch_up_within,"
        " jitter, ends_at, declared_by, paused_at, last_slot, error, starts_at, next_slot, due_at from sluice.list_schedules()",
    )
    assert settings == [
        "nightly", "queue", "orders", {"n": 1}, None, None, "0 3 * * *", None, "Europe/Berlin", "one",
        timedelta(days=7), timedelta(0), None, None, None, None, None,
    ]  # fmt: skip
    assert next_slot == due_at == value(
        orders, "select sluice._next_slot('0 3 * * *', 'Europe/Berlin', %s)", starts_at
    )  # fmt: skip


def test_the_same_again_changes_nothing(orders):
    options = {"message": {"n": 1}, "every": "1 day", "jitter": "1 hour", "headers": '{"h": 1}'}
    assert schedule(orders, **options) is True
    before = rows(orders, "select xmin, s.* from sluice.schedule as s")

    assert schedule(orders, **options) is False
    assert schedule(orders, **options | {"every": "24 hours", "queue_name": "ORDERS"}) is False
    assert rows(orders, "select xmin, s.* from sluice.schedule as s") == before


def test_another_message_keeps_its_place_and_other_times_begin_now(orders):
    schedule(orders, every="1 hour")
    due_since(orders, "30 minutes")
    place = state(orders, "next_slot")

    assert schedule(orders, message="other", every="1 hour") is True
    assert (state(orders, "next_slot"), state(orders, "message")) == (place, "other")

    assert schedule(orders, message="other", every="2 hours") is True
    assert state(orders, "next_slot") > value(orders, "select now()")
    assert fire(orders) == []


def test_paused_schedule_stays_paused(orders):
    schedule(orders, every="1 hour")
    orders.execute("select sluice.pause_schedule('nightly')")

    assert schedule(orders, every="2 hours") is True

    assert state(orders, "paused_at") is not None
    assert state(orders, "next_slot") is None


def test_interval_starts_after_the_first_slot_or_at_starts_at(orders):
    schedule(orders, "left out", every="1 hour")
    schedule(orders, "told", every="1 hour", starts_at=NEXT_YEAR)
    schedule(orders, "past", every="1 hour", starts_at="2000-01-01 00:30+00")

    assert state(orders, "starts_at", "left out") == state(orders, "next_slot", "left out")
    assert value(
        orders,
        "select next_slot - now() > '59 minutes' from sluice.list_schedules() where name = 'left out'",
    )
    assert state(orders, "next_slot", "told") == NEXT_YEAR
    assert state(orders, "next_slot", "past").astimezone(UTC).minute == 30


def test_slots_lie_between_start_and_end(orders):
    schedule(orders, "first", cron="0 0 * * *", starts_at=NEXT_YEAR)
    schedule(
        orders,
        "none",
        cron="0 0 * * *",
        starts_at="2100-01-01 00:00:01+00",
        ends_at="2100-01-02 00:00+00",
    )

    assert state(orders, "next_slot", "first") == NEXT_YEAR
    assert state(orders, "next_slot", "none") is None


def test_invalid_argument_is_refused_with_its_name(orders):
    cannot = "cannot create the schedule 'nightly': "

    assert refused(orders, cron=None) == ("22023", cannot + "it needs either cron or every")
    assert refused(orders, every="1 hour") == ("22023", cannot + "it needs either cron or every")
    assert refused(orders, catch_up="some") == ("22023", cannot + "catch_up is 'some'")
    assert refused(orders, time_zone="Mars/Base") == ("22023", cannot + "time_zone is 'Mars/Base'")
    assert refused(orders, time_zone="UTC+3") == ("22023", cannot + "time_zone is 'UTC+3'")
    assert refused(orders, jitter="2 days") == ("22023", cannot + "jitter is 2 days")
    assert refused(orders, jitter="-1 second") == ("22023", cannot + "jitter is -00:00:01")
    assert refused(orders, ends_at="infinity") == (
        "22023",
        cannot + "starts_at or ends_at is infinite",
    )
    assert refused(orders, starts_at="2030-01-02", ends_at="2030-01-01") == (
        "22023",
        cannot + "ends_at is not after starts_at",
    )
    assert refused(orders, headers="[]") == ("22023", cannot + "headers is not a JSON object")
    assert refused(orders, cron="0 0 30 2 *") == (
        "RS002",
        "the cron expression '0 0 30 2 *' never matches",
    )
    assert refused(orders, cron="x") == ("RS002", "'x' is not a valid cron expression")
    for every in ("99 milliseconds", "-1 hour", "1 month"):
        code, message = refused(orders, cron=None, every=every)
        assert (code, message[: len(cannot) + 8]) == ("22023", cannot + "every is")
    assert refused(orders, name="") == ("22023", "schedule name is empty")
    assert refused(orders, name=None)[0] == "22004"
    assert refused(orders, queue_name="none") == ("QU005", "queue 'none' does not exist")
    assert rows(orders, "select name from sluice.list_schedules()") == []


def test_a_month_is_not_thirty_days_even_where_these_are_there(orders):
    schedule(orders, every="30 days")

    assert refused(orders, cron=None, every="1 month")[0] == "22023"


def test_only_an_admin_may_schedule(orders, as_member):
    call = "select sluice.schedule('nightly', 'orders', '1', every => '1 hour')"

    assert as_member("sluice_admin", call) == [(True,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", call)


def test_a_cron_expression_that_takes_seconds_to_parse_is_refused(orders):
    minutes = ",".join(["1-59/1"] * 2000)

    with pytest.raises(psycopg.Error) as caught:
        orders.execute(
            "select sluice.schedule('s', 'orders', '{}'::jsonb, %s)", [f"{minutes} * * * *"]
        )

    assert caught.value.sqlstate == "RS002"
    assert caught.value.diag.message_hint.startswith("use at most 1024 bytes")
