"""sluice._maintain_schedules: it fires due schedules and removes old slots in steps."""

from support import rows, value
from support.schedules import due_since, schedule


def maintain(connection):
    return rows(connection, "select * from sluice.maintain()")


def test_due_schedules_are_fired_and_failures_reported(orders):
    orders.execute("select pgmq.create('gone')")
    for name, queue_name in (("a", "gone"), ("b", "orders")):
        schedule(orders, name, queue_name, every="1 hour")
        due_since(orders, "30 minutes", name)
    orders.execute("select pgmq.drop_queue('gone')")
    slot = value(orders, "select next_slot::text from sluice.schedule where name = 'b'")

    assert sorted(maintain(orders)) == [
        ("schedule", "gone", False, 'a: relation "pgmq.q_gone" does not exist'),
        ("schedule", "orders", True, f"b: slot {slot} fired"),
    ]
    assert maintain(orders) == []


def test_slots_older_than_yesterday_are_removed_in_steps(orders):
    schedule(orders, every="1 hour")
    orders.execute(
        "insert into sluice.schedule_slot select 'nightly', at, at, 1"
        " from generate_series(now() - interval '40 hours', now(), '1 hour') as at"
    )

    step = "select detail from sluice._maintain_schedules(10)"
    assert rows(orders, step) == [("9 old slots removed; the next call goes on",)]
    assert rows(orders, step) == [("7 old slots removed",)]
    assert rows(orders, step) == []
    kept = "select count(*), min(fired_at) > now() - interval '25 hours' from sluice.schedule_slot"
    assert rows(orders, kept) == [(25, True)]


def test_the_last_removed_slot_of_each_schedule_stays_marked(orders):
    for name in ("a", "b"):
        schedule(orders, name, every="1 hour")
    # The last row has the higher slot, whichever was fired last: the clock was set back in between.
    orders.execute(
        "insert into sluice.schedule_slot values"
        " ('a', '2026-01-03 00:00+00', '2026-01-03 00:00+00', 1), ('a', '2026-01-01 00:00+00', '2026-01-04 00:00+00', 2),"
        " ('b', '2026-01-02 00:00+00', '2026-01-02 00:00+00', 3)"
    )
    marked = "select name, msg_id, earlier_removed from sluice.schedule_slot order by name, slot"

    assert maintain(orders) == [("schedule", None, True, "1 old slots removed")]
    assert rows(orders, marked) == [("a", 1, True), ("b", 3, True)]

    # A lower slot does not replace the mark, a higher one does.
    orders.execute(
        "insert into sluice.schedule_slot values"
        " ('a', '2026-01-02 00:00+00', '2026-01-05 00:00+00', 4), ('b', '2026-01-05 00:00+00', '2026-01-05 00:00+00', 5)"
    )
    assert maintain(orders) == [("schedule", None, True, "2 old slots removed")]
    assert rows(orders, marked) == [("a", 1, True), ("b", 5, True)]
