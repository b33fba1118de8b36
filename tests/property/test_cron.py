"""Cron expressions, against a model that looks at the clock of the wall minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support import value

MINUTE = timedelta(minutes=1)
# Where clocks are set by an hour and by half of one, by night and at midnight, on both halves of the earth, and nowhere.
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
    """A field, and what it means."""
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
def expressions(draw: st.DrawFn) -> tuple[str, dict]:
    fields = [draw(numbers(*bounds)) for bounds in ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))]
    if draw(st.booleans()):
        fields[1] = ("*", frozenset(range(24)))
    if draw(st.integers(0, 3)):
        fields[3] = ("*", frozenset(range(1, 13)))
    return " ".join(text for text, _ in fields), {"fields": fields}


def is_slot(fields: list[tuple[str, frozenset[int]]], shown: datetime) -> bool:
    """Whether an expression means what a clock shows."""
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


def model(
    fields: list[tuple[str, frozenset[int]]], zone: str, after: datetime, until: datetime
) -> datetime | None:
    """The first slot in (after, until], by looking at a clock of the zone every minute from two days before on."""
    every_hour = len(fields[1][1]) == 24
    highest = None  # what the clock has shown so far
    moment = after.replace(second=0, microsecond=0) - timedelta(days=2)
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


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    expression=expressions(),
    change=st.sampled_from(CHANGES),
    before=st.timedeltas(timedelta(0), timedelta(hours=30)),
)
@example(
    expression=("*/7 1-3 * * *", {"fields": [("*", frozenset(range(0, 60, 7))), ("1-3", frozenset({1, 2, 3})), *[("*", frozenset(range(32)))] * 3]}),
    change=CHANGES[1],
    before=timedelta(minutes=-30),
)  # fmt: skip
def test_the_next_slot_is_the_first_that_the_clock_of_the_zone_comes_to(
    connection, expression, change, before
):
    cron, meaning = expression
    zone, moment = change
    after = moment - before
    until = moment + timedelta(hours=30)

    expected = model(meaning["fields"], zone, after, until)

    found = value(connection, "select sluice._next_slot(%s, %s, %s)", cron, zone, after)
    assert found == expected or (expected is None and (found is None or found > until))
