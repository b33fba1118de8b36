"""sluice.unschedule: it drops a schedule and keeps the sent messages."""

from support import rows, value
from support.schedules import due_since, fire, schedule


def test_it_fires_no_more_and_what_it_sent_stays(orders):
    schedule(orders, queue_name="again", every="1 hour")
    due_since(orders, "90 minutes")
    fire(orders)
    due_since(orders, "10 minutes")

    assert value(orders, "select sluice.unschedule('nightly')") is True
    assert value(orders, "select sluice.unschedule('nightly')") is False

    assert fire(orders) == []
    assert rows(orders, "select * from sluice.schedule_slot") == []
    assert value(orders, "select count(*) from pgmq.q_again") == 1
