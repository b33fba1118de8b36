"""sluice._partition_range and its helpers: ids and times as positions, and bounds on a grid."""

import pytest

from support import rows, value


@pytest.mark.parametrize(
    ("place", "interval", "starts_at", "ends_at"),
    [
        ("0", "10", "0", "10"),
        ("9", "10", "0", "10"),
        ("10", "10", "10", "20"),
        ("-1", "10", "-10", "0"),
        ("5", "1", "5", "6"),
        ("9223372036854775800", "1000", "9223372036854775000", "9223372036854775806"),
    ],
)
def test_ids_lie_between_multiples_of_the_interval(connection, place, interval, starts_at, ends_at):
    found = rows(
        connection, "select * from sluice._partition_range(%s::bigint, false, %s)", place, interval
    )

    assert found == [(int(starts_at), int(ends_at))]


@pytest.mark.parametrize(
    ("time", "interval", "starts_at", "ends_at"),
    [
        ("2026-11-21 03:15:59.999999+00", "1 hour", "2026-11-21 03:00:00+00", "2026-11-21 04:00:00+00"),
        ("2026-11-21 04:00:00+00", "1 hour", "2026-11-21 04:00:00+00", "2026-11-21 05:00:00+00"),
        ("2026-11-21 04:00:00+09", "1 day", "2026-11-20 00:00:00+00", "2026-11-21 00:00:00+00"),
        ("2026-11-21 04:00:00+00", "7 days", "2026-11-16 00:00:00+00", "2026-11-23 00:00:00+00"),
        ("2026-11-21 04:00:00+00", "1 month", "2026-11-01 00:00:00+00", "2026-12-01 00:00:00+00"),
        ("2026-11-21 04:00:00+00", "3 months", "2026-10-01 00:00:00+00", "2027-01-01 00:00:00+00"),
        ("1999-12-31 23:59:59+00", "1 year", "1999-01-01 00:00:00+00", "2000-01-01 00:00:00+00"),
        ("1969-12-31 23:59:59.5+00", "1 day", "1969-12-31 00:00:00+00", "1970-01-01 00:00:00+00"),
        ("2026-11-21 04:00:07.25+00", "5 seconds", "2026-11-21 04:00:05+00", "2026-11-21 04:00:10+00"),
    ],
)  # fmt: skip
def test_times_lie_on_a_grid_of_utc(connection, time, interval, starts_at, ends_at):
    connection.execute("set timezone = 'America/Caracas'")

    found = rows(
        connection,
        "select sluice._partition_literal(r.starts_at, true), sluice._partition_literal(r.ends_at, true) "
        "from sluice._partition_range(sluice._partition_position(%s, true), true, %s) as r",
        time,
        interval,
    )

    assert found == [(starts_at, ends_at)]


@pytest.mark.parametrize(
    ("text", "is_time"),
    [
        ("0", False),
        ("-9223372036854775807", False),
        ("9223372036854775806", False),
        ("MINVALUE", False),
        ("MAXVALUE", True),
        ("2026-11-21 04:00:00.000001+00", True),
        ("1969-12-31 23:59:59.999999+00", True),
        ("0044-03-15 00:00:00+00 BC", True),
        ("9999-12-31 23:59:59.999999+00", True),
    ],
)
def test_a_position_gives_the_text_that_it_came_from(connection, text, is_time):
    back = value(
        connection,
        "select sluice._partition_literal(sluice._partition_position(%s, %s), %s)",
        text,
        is_time,
        is_time,
    )

    assert back == text


def test_the_bounds_of_partitions_are_read_from_the_catalog_in_order(connection):
    connection.execute("create table public.t (at timestamptz) partition by range (at)")
    connection.execute(
        "create table public.late partition of public.t for values from ('2026-03-01 00:00+00') to (maxvalue)"
    )
    connection.execute(
        "create table public.early partition of public.t for values from (minvalue) to ('2026-01-01 00:00+00')"
    )
    connection.execute("create table public.rest partition of public.t default")
    connection.execute("set timezone = 'Asia/Kathmandu'")

    found = rows(
        connection,
        "select b.leaf::text, sluice._partition_literal(b.starts_at, true), sluice._partition_literal(b.ends_at, true) "
        "from sluice._partition_bounds('public.t') as b",
    )

    assert found == [
        ("early", "MINVALUE", "2026-01-01 00:00:00+00"),
        ("late", "2026-03-01 00:00:00+00", "MAXVALUE"),
    ]
    assert rows(connection, "select * from sluice._partition_key('public.t')") == [
        ("at", True, "rest")
    ]


@pytest.mark.parametrize(
    ("interval", "is_time"),
    [
        ("10", False),
        (" 10 ", False),
        ("-1", False),
        ("1 day", True),
        ("3000000000", True),
        ("1.5", True),
    ],
)
def test_a_whole_number_counts_ids_and_all_else_is_a_time(connection, interval, is_time):
    assert value(connection, "select sluice._is_time_interval(%s)", interval) is is_time
