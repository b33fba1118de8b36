"""Cron expressions, against a model that checks local time minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from support import replace_in, value

# The text and the matching values of each of the five fields.
Fields = list[tuple[str, frozenset[int]]]
MINUTE = timedelta(minutes=1)
# Clock changes of an hour and half an hour, at night and at midnight, in both hemispheres, and
# none.
CHANGES = [
    ("Europe/Berlin", datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 25, 1, 0, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, 7, 0, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 6, 0, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, 0, tzinfo=UTC)),
    ("Africa/Cairo", datetime(2026, 4, 23, 22, 0, tzinfo=UTC)),
    ("Africa/Cairo", datetime(2026, 10, 29, 21, 0, tzinfo=UTC)),
    ("UTC", datetime(2028, 2, 29, 0, 0, tzinfo=UTC)),
]


def numbers(least: int, most: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """Generate a field's text with its matching values."""
    number = st.integers(least, most)
    ranges = st.tuples(number, number, st.integers(1, 7)).map(sorted_range)
    single = number.map(lambda n: (str(n), frozenset([n])))
    stars = st.integers(1, 7).map(
        lambda step: (
            f"*/{step}" if step > 1 else "*",
            frozenset(range(least, most + 1, step)),
        )
    )
    lists = st.lists(single | ranges, min_size=1, max_size=3).map(
        lambda items: (
            ",".join(text for text, _ in items),
            frozenset().union(*(meant for _, meant in items)),
        )
    )
    return stars | lists


def sorted_range(ends: tuple[int, int, int]) -> tuple[str, frozenset[int]]:
    first, last = sorted(ends[:2])
    return f"{first}-{last}/{ends[2]}", frozenset(range(first, last + 1, ends[2]))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Fields, str, datetime, datetime]:
    """Generate an expression, a zone and a time range around a clock change."""
    zone, moment = draw(st.sampled_from(CHANGES))
    fields = [draw(numbers(*bounds)) for bounds in ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))]
    hour = (moment.astimezone(ZoneInfo(zone)) - MINUTE * draw(st.integers(0, 119))).hour
    fields[1] = draw(
        st.sampled_from(
            [fields[1], ("*", frozenset(range(24))), (str(hour), frozenset([hour])), (f"{hour}-23", frozenset(range(hour, 24)))]
        )
    )  # fmt: skip
    if draw(st.integers(0, 3)):
        fields[3] = ("*", frozenset(range(1, 13)))
    if draw(st.booleans()):
        fields[2], fields[4] = ("*", frozenset(range(1, 32))), ("*", frozenset(range(8)))
    after = moment - timedelta(minutes=draw(st.integers(-120, 360)))
    return fields, zone, after, moment + timedelta(hours=draw(st.sampled_from([6, 6, 6, 30])))


def is_slot(fields: Fields, shown: datetime) -> bool:
    """True if a time matches a cron expression."""
    (_, minutes), (_, hours), (days_text, days), (_, months), (week_text, weekdays) = fields
    in_month = shown.day in days
    in_week = bool({shown.isoweekday(), shown.isoweekday() % 7} & weekdays)
    restricted = days_text[0] != "*" and week_text[0] != "*"
    return (
        shown.minute in minutes
        and shown.hour in hours
        and shown.month in months
        and (in_month or in_week if restricted else in_month and in_week)
    )


def model(fields: Fields, zone: str, after: datetime, until: datetime) -> datetime | None:
    """Return the first slot in (after, until], checking each minute from six hours before."""
    every_hour = len(fields[1][1]) == 24
    highest = None  # the latest local time so far
    moment = after.replace(second=0, microsecond=0) - timedelta(hours=6)
    while moment <= until:
        shown = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        if every_hour:
            hit = is_slot(fields, shown)
        else:
            hit = False
            passed = shown if highest is None else highest + MINUTE
            while passed <= shown:
                hit = hit or is_slot(fields, passed)
                passed += MINUTE
            highest = shown if highest is None else max(highest, shown)
        if hit and moment > after:
            return moment
        moment += MINUTE
    return None


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        yield connection


def compare(connection, seed, **options):
    """Compare the server's next slot with the model's for random cases."""

    @with_seed(seed)
    @settings(**options)
    @given(cases())
    def agree(case):
        fields, zone, after, until = case
        cron = " ".join(text for text, _ in fields)

        expected = model(fields, zone, after, until)

        found = value(connection, "select sluice._next_slot(%s, %s, %s)", cron, zone, after)
        assert found == expected or (expected is None and (found is None or found > until))

    agree()


def test_the_next_slot_is_the_first_that_the_clock_of_the_zone_comes_to(connection, seed):
    compare(connection, seed, max_examples=150)


# Function → a part of its source, and the bug that replaces it.
PLANTED = {
    "sluice._next_slot(text,text,timestamptz)": ("v_slot <= i_after", "v_slot = i_after"),
    "sluice._first_moment(timestamp,text)": ("v_repeated > '0'", "false"),
    "sluice._next_cron_time(sluice.cron,timestamp)": ("where m > extract", "where m >= extract"),
    "sluice._next_cron_day(sluice.cron,date)": ("case when i_cron.is_either", "case when true"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    # _next_slot takes a minute, as its loop runs into the timeout for each example.
    [
        pytest.param(each, marks=pytest.mark.long) if "_next_slot" in each else each
        for each in PLANTED
    ],
)
def test_a_planted_bug_is_found(connection, seed, function):
    replace_in(connection, function, *PLANTED[function])
    connection.execute("set statement_timeout = '2s'")  # detects endless loops, too

    with pytest.raises((AssertionError, psycopg.errors.QueryCanceled)):
        compare(
            connection, seed, max_examples=2000, phases=[Phase.generate], report_multiple_bugs=False
        )
