"""sluice.fire_schedules: each due slot is sent once; missed slots, failures and jitter.

Covers _fire_schedule, _slot_to_fire, _slot_due_at, _send_scheduled and
_require_schedule.
"""

from datetime import UTC, datetime, timedelta

import pytest

from support import rows, value
from support.schedules import due_since, fire, fire_all, fired_slots, schedule, state

HOUR = timedelta(hours=1)


def test_nothing_is_fired_before_it_is_due(orders):
    schedule(orders, every="1 hour")

    assert fire(orders) == []
    assert (
        value(orders, "select count(*) from pgmq.q_orders where headers ? 'x-pgmq-schedule'") == 0
    )


def test_a_slot_is_sent_with_its_headers_and_its_slot_and_once(orders):
    schedule(
        orders,
        queue_name="again",
        message={"n": 1},
        every="1 hour",
        headers='{"x-pgmq-group": "g"}',
    )
    due_since(orders, "30 minutes")
    slot = state(orders, "next_slot")

    assert fire(orders) == [("nightly", slot, 1, None)]
    assert fire(orders) == []

    assert rows(orders, "select message, headers from pgmq.q_again") == [
        ({"n": 1}, {"x-pgmq-group": "g", "x-pgmq-schedule": {"name": "nightly", "slot": slot.astimezone(UTC).isoformat(timespec="microseconds")}})
    ]  # fmt: skip
    assert rows(orders, "select slot, msg_id from sluice.schedule_slot") == [(slot, 1)]
    assert (state(orders, "last_slot"), state(orders, "next_slot")) == (slot, slot + HOUR)
    assert state(orders, "last_fired_at") > slot


def test_a_cron_expression_goes_on_with_its_next_slot(orders):
    schedule(orders, cron="*/5 * * * *", time_zone="Asia/Kathmandu")
    due_since(orders, "301 seconds")

    ((_, slot, _, _),) = fire_all(orders)[-1:]

    assert slot.minute % 5 == 0
    assert state(orders, "next_slot") == slot + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("timing", "step"), [({"every": "1 hour"}, HOUR), ({"cron": "30 * * * *"}, HOUR), ({"cron": "30 2 * * *"}, 24 * HOUR)]
)  # fmt: skip
def test_of_missed_slots_one_all_or_none_is_fired(orders, timing, step):
    for catch_up in ("one", "all", "none"):
        schedule(orders, catch_up, catch_up=catch_up, catch_up_within="90 days", **timing)
        # Half a step more, so that the last slot is not recent.
        due_since(orders, f"{30.5 * step.total_seconds()} seconds", catch_up)
    orders.execute(
        "update sluice.schedule set (starts_at, next_slot, due_at) ="
        " (select first, first, first from (select min(next_slot) from sluice.schedule) as s (first))"
    )
    first = state(orders, "next_slot", "all")
    fire_all(orders)

    slots = fired_slots(orders, "all")
    assert slots == [first + n * step for n in range(len(slots))]
    assert len(slots) in (30, 31)
    assert fired_slots(orders, "one") == slots[-1:]
    is_missed = value(orders, "select now() - %s > '5 minutes'", slots[-1])
    assert fired_slots(orders, "none") == ([] if is_missed else slots[-1:])
    assert state(orders, "next_slot", "all") == slots[-1] + step
    assert state(orders, "next_slot", "one") == slots[-1] + step
    assert state(orders, "next_slot", "none") == slots[-1] + step


def test_without_catching_up_a_slot_may_be_five_minutes_late(orders):
    for name, late in (("in time", "290 seconds"), ("missed", "310 seconds")):
        schedule(orders, name, every="1 hour", catch_up="none")
        due_since(orders, late, name)
        orders.execute("update sluice.schedule set next_slot = starts_at, due_at = starts_at where name = %s", (name,))  # fmt: skip

    assert [name for name, *_ in fire(orders)] == ["in time"]
    assert (
        value(orders, "select min(next_slot - now()) > '50 minutes' from sluice.schedule") is True
    )


def test_all_are_caught_up_within_a_time_and_the_last_one_in_any_case(orders):
    schedule(orders, "hours", every="1 hour", catch_up="all", catch_up_within="160 minutes")
    schedule(orders, "month", every="30 days", catch_up="all", catch_up_within="1 hour")
    for name in ("hours", "month"):
        due_since(orders, "100 days 30 minutes", name)

    fire_all(orders)

    assert len(fired_slots(orders, "hours")) == 3
    assert len(fired_slots(orders, "month")) == 1
    assert state(orders, "next_slot", "month") - state(orders, "last_slot", "month") == timedelta(
        days=30
    )


def test_years_of_missed_minutes_are_passed_over_at_once(orders):
    schedule(orders, cron="* * * * *", starts_at="2020-01-01 00:00+00")
    schedule(orders, "short", every="0.1 seconds", starts_at="2020-01-01 00:00+00")
    orders.execute("update sluice.schedule set next_slot = starts_at, due_at = starts_at")
    orders.execute("set statement_timeout = '10s'")

    fired = fire(orders)

    assert [name for name, *_ in fired] == ["nightly", "short"]
    assert all(value(orders, "select now() - %s < '2 minutes'", slot) for _, slot, *_ in fired)


def test_schedule_catching_up_does_not_delay_the_others(orders):
    schedule(orders, "long", every="1 minute", catch_up="all")
    schedule(orders, "other", every="1 hour")
    due_since(orders, "1 day", "long")
    due_since(orders, "1 minute", "other")
    orders.execute("update sluice.schedule set next_slot = starts_at, due_at = starts_at")

    names = [name for name, *_ in fire(orders)]

    assert (names.count("long"), names.count("other")) == (10, 1)


def test_a_jitter_is_the_same_for_a_slot_and_another_for_others(orders):
    schedule(orders, every="1 hour", jitter="10 minutes")
    schedule(orders, "other", every="1 hour", jitter="10 minutes")

    delays = {
        (name, delay)
        for name, delay in rows(
            orders,
            "select s.name, sluice._slot_due_at(s, slot) - slot from sluice.schedule as s,"
            " generate_series('2026-01-01 00:00+00'::timestamptz, '2026-01-02', '1 hour') as slot, generate_series(1, 2)",
        )
    }

    assert len(delays) == 2 * 25
    assert all(timedelta(0) <= delay < timedelta(minutes=10) for _, delay in delays)
    assert max(delays)[1] - min(delays)[1] > timedelta(minutes=1)


def test_with_a_jitter_a_slot_waits_and_is_not_missed(orders):
    schedule(orders, every="1 hour", jitter="1 day", catch_up="one")
    due_since(orders, "3 hours")
    # Three slots are due with a jitter of up to a day; each fires when its jitter is over.
    for _ in range(3):
        orders.execute("update sluice.schedule set due_at = now()")
        fire(orders)

    assert state(orders, "due_at") == value(
        orders, "select sluice._slot_due_at(s, s.next_slot) from sluice.schedule as s"
    )
    fired = fired_slots(orders)
    assert fired == sorted(fired)
    assert all(
        value(orders, "select sluice._slot_due_at(s, %s) <= now() from sluice.schedule as s", slot)
        for slot in fired
    )


def test_a_failure_keeps_its_slot_and_stops_no_other(orders):
    orders.execute("select pgmq.create('gone')")
    for name, queue_name in (("a", "gone"), ("b", "orders")):
        schedule(orders, name, queue_name, every="1 hour")
        due_since(orders, "30 minutes", name)
    orders.execute("select pgmq.drop_queue('gone')")
    slot = state(orders, "next_slot", "a")

    failed, sent = fire(orders)

    assert failed[:3] == ("a", slot, None)
    assert failed[3] == state(orders, "error", "a") == 'relation "pgmq.q_gone" does not exist'
    assert (sent[0], sent[3]) == ("b", None)
    assert fire(orders) == []
    assert value(
        orders, "select due_at - now() > '8 seconds' from sluice.schedule where name = 'a'"
    )
    orders.execute("select pgmq.create('gone')")
    orders.execute("update sluice.schedule set due_at = now() where name = 'a'")
    assert fire(orders) == [("a", slot, 1, None)]
    assert state(orders, "error", "a") is None


def test_a_trigger_that_raises_takes_back_its_own_send_only(orders):
    orders.execute(
        """create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$;
        create trigger refuse after insert on pgmq.q_again for each row execute function refuse()"""
    )
    for name, queue_name in (("a", "again"), ("b", "orders")):
        schedule(orders, name, queue_name, every="1 hour")
        due_since(orders, "30 minutes", name)

    assert [(name, error) for name, _, _, error in fire(orders)] == [("a", "not now"), ("b", None)]
    assert value(orders, "select count(*) from pgmq.q_again") == 0
    assert fired_slots(orders, "a") == []


def test_a_queue_whose_table_is_locked_is_given_up_for_now(database, orders):
    for name, queue_name in (("a", "again"), ("b", "orders")):
        schedule(orders, name, queue_name, every="1 hour")
        due_since(orders, "30 minutes", name)
    with database.connect(autocommit=False) as other:
        other.execute("lock table pgmq.q_again in access exclusive mode")

        assert [(name, error) for name, _, _, error in fire(orders)] == [
            ("a", "canceling statement due to lock timeout"), ("b", None)
        ]  # fmt: skip
    assert value(
        orders, "select due_at - now() < '2 seconds' from sluice.schedule where name = 'a'"
    )


def test_a_slot_that_was_fired_is_passed_by_when_the_clock_is_set_back_and_the_times_change(orders):
    schedule(orders, every="1 hour", starts_at="2026-01-01 00:00+00", catch_up="all")
    due_since(orders, "150 minutes")
    orders.execute("update sluice.schedule set starts_at = '2026-01-01 00:00+00'")
    before = fire(orders)
    # Simulate a schedule that was changed and changed back while the clock was set back.
    orders.execute("update sluice.schedule set (next_slot, due_at) = (next_slot - interval '2 hours', due_at - interval '2 hours')")  # fmt: skip

    assert fire(orders) == []

    assert fired_slots(orders) == [slot for _, slot, *_ in before]
    assert state(orders, "next_slot") == before[-1][1] + HOUR


def test_slots_of_an_interval_do_not_drift(orders):
    schedule(orders, every="0.7 seconds", starts_at="2026-01-01 00:00+00")
    orders.execute("set timezone = 'Europe/Berlin'")

    wanted = datetime(2026, 1, 1, tzinfo=UTC) + 50_000_000 * timedelta(seconds=0.7)
    found = value(orders, "select sluice._next_slot(s, %s) from sluice.schedule as s", wanted - timedelta(milliseconds=1))  # fmt: skip

    assert found == wanted


def test_it_works_for_members_of_the_role_and_in_the_caller_s_transaction(orders, as_member):
    schedule(orders, every="1 hour")
    due_since(orders, "30 minutes")

    assert len(as_member("sluice_admin", "select * from sluice.fire_schedules()")) == 1
    # as_member rolled back its transaction.
    assert len(fire(orders)) == 1
