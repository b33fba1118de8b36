"""sluice._maintain_limits: it removes old rows from the ledger of starts."""

from support import rows, value
from support.queue_options import NO_LIMITS, set_queue_options


def test_starts_that_no_rate_looks_at_are_removed_step_by_step(connection):
    connection.execute("select pgmq.create('q'), pgmq.create('gone')")
    for name in ("q", "gone"):
        set_queue_options(connection, name, rate=100, rate_interval="1 hour")
    connection.execute(
        "insert into sluice.queue_start (limits_id, started_at, before, started) "
        "select l.limits_id, clock_timestamp() - make_interval(mins => 10 * (13 - n)), n, 1 "
        "from sluice.queue_settings as l, generate_series(1, 12) as n"
    )
    set_queue_options(connection, "gone", **NO_LIMITS)
    started = "select started from sluice.list_limit_usage()"
    assert rows(connection, started) == [(5,)]

    assert rows(connection, "select done, detail from sluice._maintain_limits(10)") == [
        (True, "10 starts forgotten that no rate looks at; the next call goes on")
    ]
    assert rows(connection, "select task, detail from sluice.maintain()") == [
        ("limits", "9 starts forgotten that no rate looks at")
    ]
    assert rows(connection, "select * from sluice._maintain_limits()") == []

    assert rows(connection, started) == [(5,)]
    assert value(connection, "select count(*) from sluice.queue_start") == 5
