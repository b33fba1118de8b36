"""sluice._next_slot: cron expressions, including daylight saving time.

Covers its steps: _parse_cron, _cron_field, _next_cron_day, _next_cron_time and
_first_moment. tests/property/test_cron.py compares it with a model.
"""

from datetime import UTC, datetime

import psycopg
import pytest

from support import value

SATURDAY = "2026-11-21 14:16:30+00"


def slots(connection, cron, after, count=1, time_zone="UTC"):
    """Return the next slots in the time zone, with their UTC offsets."""
    connection.execute("select set_config('timezone', %s, false)", (time_zone,))
    found = []
    for _ in range(count):
        after = value(
            connection, "select sluice._next_slot(%s, %s, %s)::text", cron, time_zone, after
        )
        found.append(after)
    return found


SLOTS = [
    ("* * * * *", SATURDAY, ["2026-11-21 14:17:00+00", "2026-11-21 14:18:00+00"]),
    ("*/20 * * * *", SATURDAY, ["2026-11-21 14:20:00+00", "2026-11-21 14:40:00+00", "2026-11-21 15:00:00+00"]),
    ("10-40/15 14 * * *", SATURDAY, ["2026-11-21 14:25:00+00", "2026-11-21 14:40:00+00", "2026-11-22 14:10:00+00"]),
    ("0,30 9-10,17 * * *", SATURDAY, ["2026-11-21 17:00:00+00", "2026-11-21 17:30:00+00", "2026-11-22 09:00:00+00"]),
    ("16 14 * * *", SATURDAY, ["2026-11-22 14:16:00+00"]),
    ("16 14 * * *", "2026-11-21 14:15:59.999999+00", ["2026-11-21 14:16:00+00"]),
    ("16 14 * * *", "2026-11-21 14:16:00+00", ["2026-11-22 14:16:00+00"]),
    ("0 0 1 * *", SATURDAY, ["2026-12-01 00:00:00+00", "2027-01-01 00:00:00+00"]),
    ("0 0 31 * *", SATURDAY, ["2026-12-31 00:00:00+00", "2027-01-31 00:00:00+00", "2027-03-31 00:00:00+00"]),
    ("0 0 L * *", SATURDAY, ["2026-11-30 00:00:00+00", "2026-12-31 00:00:00+00", "2027-01-31 00:00:00+00", "2027-02-28 00:00:00+00"]),
    ("0 0 15,l 2 *", SATURDAY, ["2027-02-15 00:00:00+00", "2027-02-28 00:00:00+00", "2028-02-15 00:00:00+00", "2028-02-29 00:00:00+00"]),
    ("0 0 29 2 *", SATURDAY, ["2028-02-29 00:00:00+00", "2032-02-29 00:00:00+00"]),
    ("0 0 29 feb *", "2096-03-01 00:00+00", ["2104-02-29 00:00:00+00"]),
    ("0 0 30 2 *", SATURDAY, [None]),
    ("0 0 * * mon-fri", SATURDAY, ["2026-11-23 00:00:00+00", "2026-11-24 00:00:00+00"]),
    ("0 0 * * 0", SATURDAY, ["2026-11-22 00:00:00+00", "2026-11-29 00:00:00+00"]),
    ("0 0 * * 7", SATURDAY, ["2026-11-22 00:00:00+00", "2026-11-29 00:00:00+00"]),
    ("0 0 * * fri-sun", SATURDAY, ["2026-11-22 00:00:00+00", "2026-11-27 00:00:00+00", "2026-11-28 00:00:00+00", "2026-11-29 00:00:00+00"]),
    ("0 0 * * 5-7", SATURDAY, ["2026-11-22 00:00:00+00", "2026-11-27 00:00:00+00"]),
    ("0 0 * JAN,Jul Sun", SATURDAY, ["2027-01-03 00:00:00+00"]),
    # With both days restricted, either matches: the 13th, and every Friday.
    ("0 0 13 * fri", SATURDAY, ["2026-11-27 00:00:00+00", "2026-12-04 00:00:00+00", "2026-12-11 00:00:00+00", "2026-12-13 00:00:00+00"]),
    # One of them starts with a star, so both must match: Fridays with an odd day of the month.
    ("0 0 */2 * fri", SATURDAY, ["2026-11-27 00:00:00+00", "2026-12-11 00:00:00+00", "2026-12-25 00:00:00+00"]),
    ("  0\t12  *  * * ", SATURDAY, ["2026-11-22 12:00:00+00"]),
    ("@hourly", SATURDAY, ["2026-11-21 15:00:00+00", "2026-11-21 16:00:00+00"]),
    ("@daily", SATURDAY, ["2026-11-22 00:00:00+00"]),
    ("@midnight", SATURDAY, ["2026-11-22 00:00:00+00"]),
    ("@weekly", SATURDAY, ["2026-11-22 00:00:00+00", "2026-11-29 00:00:00+00"]),
    ("@Monthly", SATURDAY, ["2026-12-01 00:00:00+00"]),
    ("@yearly", SATURDAY, ["2027-01-01 00:00:00+00", "2028-01-01 00:00:00+00"]),
    ("@annually", SATURDAY, ["2027-01-01 00:00:00+00"]),
    ("5 * 29 2 *", SATURDAY, ["2028-02-29 00:05:00+00", "2028-02-29 01:05:00+00"]),
]  # fmt: skip


def test_the_slots_of_an_expression(connection):
    found = [
        (cron, after, slots(connection, cron, after, len(expected)))
        for cron, after, expected in SLOTS
    ]

    assert found == SLOTS


# Zone, expression, after, slots.
CLOCKS = [
    # 2026-03-29: from 01:59 to 03:00. A skipped slot fires at the first time after the gap.
    ("Europe/Berlin", "30 2 * * *", "2026-03-28 12:00+01", ["2026-03-29 03:00:00+02", "2026-03-30 02:30:00+02"]),
    ("Europe/Berlin", "0,15,30 2 * * *", "2026-03-28 12:00+01", ["2026-03-29 03:00:00+02", "2026-03-30 02:00:00+02"]),
    ("Europe/Berlin", "30 2,3 * * *", "2026-03-28 12:00+01", ["2026-03-29 03:00:00+02", "2026-03-29 03:30:00+02"]),
    ("Europe/Berlin", "0 2,3 * * *", "2026-03-28 12:00+01", ["2026-03-29 03:00:00+02", "2026-03-30 02:00:00+02"]),
    # 2026-10-25: from 02:59 back to 02:00. A repeated slot fires at the first occurrence.
    ("Europe/Berlin", "30 2 * * *", "2026-10-24 12:00+02", ["2026-10-25 02:30:00+02", "2026-10-26 02:30:00+01"]),
    ("Europe/Berlin", "30 2 * * *", "2026-10-25 02:40+02", ["2026-10-26 02:30:00+01"]),
    ("Europe/Berlin", "*/30 2,3 * * *", "2026-10-25 02:10+02", ["2026-10-25 02:30:00+02", "2026-10-25 03:00:00+01"]),
    # A schedule of every hour also fires in the repeated hour.
    ("Europe/Berlin", "*/30 * * * *", "2026-10-25 02:10+02", ["2026-10-25 02:30:00+02", "2026-10-25 02:00:00+01", "2026-10-25 02:30:00+01", "2026-10-25 03:00:00+01"]),
    ("Europe/Berlin", "*/30 * * * *", "2026-03-29 01:10+01", ["2026-03-29 01:30:00+01", "2026-03-29 03:00:00+02"]),
    ("Europe/Berlin", "45 * * * *", "2026-03-29 01:10+01", ["2026-03-29 01:45:00+01", "2026-03-29 03:45:00+02"]),
    ("Europe/Berlin", "45 * 25 10 *", "2026-01-01 00:00+01", ["2026-10-25 00:45:00+02", "2026-10-25 01:45:00+02", "2026-10-25 02:45:00+02", "2026-10-25 02:45:00+01"]),
    ("America/New_York", "15 1 * * *", "2026-10-31 12:00-04", ["2026-11-01 01:15:00-04", "2026-11-02 01:15:00-05"]),
    # Half an hour: 2026-10-04 from 02:00 to 02:30, 2026-04-05 from 02:00 to 01:30.
    ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03 12:00+10:30", ["2026-10-04 02:30:00+11", "2026-10-05 02:15:00+11"]),
    ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04 12:00+11", ["2026-04-05 01:45:00+11", "2026-04-06 01:45:00+10:30"]),
    # At midnight: Cairo, 2026-04-24 from 00:00 to 01:00.
    ("Africa/Cairo", "0 0 * * *", "2026-04-23 12:00+02", ["2026-04-24 01:00:00+03", "2026-04-25 00:00:00+03"]),
    # A whole day: Samoa skipped 30 December 2011.
    ("Pacific/Apia", "0 9 * * *", "2011-12-29 12:00-10", ["2011-12-31 00:00:00+14", "2011-12-31 09:00:00+14"]),
    ("Asia/Kathmandu", "0 6 * * *", SATURDAY, ["2026-11-22 06:00:00+05:45"]),
]  # fmt: skip


def test_clocks_that_are_set_forward_and_back(connection):
    found = [
        (time_zone, cron, after, slots(connection, cron, after, len(expected), time_zone))
        for time_zone, cron, after, expected in CLOCKS
    ]

    assert found == CLOCKS


def test_the_session_s_time_zone_does_not_matter(connection):
    connection.execute("set timezone = 'Pacific/Auckland'")
    query = "select sluice._next_slot('30 2 * * *', 'Europe/Berlin', '2026-03-28 12:00+01')"

    assert value(connection, query) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)


# Expression, message, and a part of the hint.
REFUSED = [
    ("60 * * * *", "'60' is not a valid minute of a schedule", "the minute is 0 to 59: "),
    ("* 24 * * *", "'24' is not a valid hour of a schedule", "the hour is 0 to 23: "),
    ("* * 0 * *", "'0' is not a valid day of month of a schedule", "the day of month is 1 to 31: "),
    ("* * 32 * *", "'32' is not a valid day of month of a schedule", "L for the last day"),
    ("* * * 13 *", "'13' is not a valid month of a schedule", "the month is 1 to 12 or jan to dec: "),
    ("* * * * 8", "'8' is not a valid day of week of a schedule", "the day of week is 0 to 7 or sun to sat: "),
    ("* * * foo *", "'foo' is not a valid month of a schedule", "jan to dec"),
    ("* * * * jan", "'jan' is not a valid day of week of a schedule", "sun to sat"),
    ("* mon * * *", "'mon' is not a valid hour of a schedule", "use *, a number"),
    ("* * * l *", "'l' is not a valid month of a schedule", "the month"),
    ("*/0 * * * *", "'*/0' is not a valid minute of a schedule", "steps */2"),
    ("*/60 * * * *", "'*/60' is not a valid minute of a schedule", "steps */2"),
    ("5/15 * * * *", "'5/15' is not a valid minute of a schedule", "1-5/2"),
    ("40-20 * * * *", "'40-20' is not a valid minute of a schedule", "a range 1-5"),
    ("1,,2 * * * *", "'' is not a valid minute of a schedule", "a list 1,5"),
    ("1, * * * *", "'' is not a valid minute of a schedule", "a list 1,5"),
    ("-1 * * * *", "'-1' is not a valid minute of a schedule", "0 to 59"),
    ("1.5 * * * *", "'1.5' is not a valid minute of a schedule", "0 to 59"),
    ("* * ? * *", "'?' is not a valid day of month of a schedule", "use *"),
    ("* * 15w * *", "'15w' is not a valid day of month of a schedule", "use *"),
    ("* * * * 5#2", "'5#2' is not a valid day of week of a schedule", "use *"),
    ("999999999999 * * * *", "'999999999999' is not a valid minute of a schedule", "0 to 59"),
    ("* * * *", "'* * * *' is not a valid cron expression", "minute, hour, day of month, month and day of week"),
    ("0 * * * * *", "'0 * * * * *' is not a valid cron expression", "minute, hour"),
    ("@reboot", "'@reboot' is not a valid cron expression", "@hourly"),
    ("", "'' is not a valid cron expression", "@hourly"),
]  # fmt: skip


def test_invalid_cron_field_is_refused_with_its_allowed_values(connection):
    for cron, message, hint in REFUSED:
        with pytest.raises(psycopg.Error) as caught:
            slots(connection, cron, SATURDAY)

        diag = caught.value.diag
        assert (diag.sqlstate, diag.message_primary) == ("RS002", message)
        assert hint in diag.message_hint, cron


def test_far_slots_cost_no_more_than_near_ones(connection):
    """The search steps by days, not by minutes; eight years are four million minutes."""
    connection.execute("set statement_timeout = '2s'")

    far = [("0 0 29 2 *", 2096), ("0 * 29 2 *", 2096), ("0 0 30 2 *", 2026), ("* * 30 2 *", 2026)]
    for cron, year in far * 10:
        slots(connection, cron, f"{year}-03-01 00:00+00", time_zone="Europe/Berlin")
