"""sluice.next_schedule_at: the time of the next due schedule."""

from support import value
from support.schedules import due_since, fire, schedule, state

NEXT = "select sluice.next_schedule_at()"


def test_it_is_the_earliest_of_all_and_null_without_any(orders):
    assert value(orders, NEXT) is None
    schedule(orders, "far", every="2 hours")
    schedule(orders, "near", every="1 hour", jitter="1 minute")

    assert value(orders, NEXT) == state(orders, "due_at", "near")

    due_since(orders, "1 minute", "far")
    assert value(orders, NEXT) == state(orders, "due_at", "far")
    fire(orders)
    assert value(orders, NEXT) == state(orders, "due_at", "near")
