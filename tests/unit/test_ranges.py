"""Numbers of options: those of a range are accepted, and others refused with their name."""

from __future__ import annotations

import math

import pytest

from pgsluice import App
from pgsluice.client.unique import Unique
from pgsluice.errors import ArgumentError
from pgsluice.outcome import Retry
from pgsluice.ranges import is_number
from pgsluice.worker import Listener, WorkerOptions
from pgsluice.worker.handlers.awaiting import Awaited
from pgsluice.worker.handlers.choosing import choose
from pgsluice.worker.upkeep.schedules import Scheduler
from pgsluice.worker.wakeups.notifier import Notifier

NO_NUMBERS = ("5", True, None, [1], math.nan, math.inf, -math.inf)


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_other_types_and_infinite_numbers_are_no_numbers(value):
    assert not is_number(value, -math.inf)


def test_bounds_belong_to_the_range():
    assert [is_number(value, 1, 3) for value in (0.9, 1, 2.5, 3, 3.1)] == [
        *(False, True, True, True, False)
    ]
    assert [is_number(value, 1, is_whole=True) for value in (0, 1, 2.0)] == [False, True, False]


@pytest.mark.parametrize(
    "option", ["concurrency", "prefetch", "lease_s", "max_memory_mb", "max_connections", "grace_s"]
)
@pytest.mark.parametrize("value", ["5", True, math.nan, -1])
def test_option_of_a_worker_that_is_out_of_range_is_refused_with_its_name(option, value):
    with pytest.raises(ArgumentError, match=f"^{option} is {value!r}; use "):
        WorkerOptions(**{option: value})


@pytest.mark.parametrize(
    "make",
    [
        lambda value: Unique(window_s=value),
        lambda value: Listener("", heartbeat_s=value),
        lambda value: Notifier(None, poll_interval_s=value),
        lambda value: Scheduler(None, poll_interval_s=value),
    ],
)
@pytest.mark.parametrize("value", ["5", 0, -1, math.nan, math.inf])
def test_interval_that_is_not_positive_is_refused_with_its_name(make, value):
    with pytest.raises(ArgumentError, match=rf"^\w+_s is {value!r}; use more than 0 seconds"):
        make(value)


@pytest.mark.parametrize("value", ["5", -1, math.nan])
def test_invalid_delay_of_a_retry_is_refused(value):
    with pytest.raises(ArgumentError, match=f"^delay_s is {value!r}; use 0 to"):
        Retry(value)


def test_result_may_be_awaited_without_an_end_and_not_for_less_than_nothing():
    app = App()

    @app.handler("q", keep_result="1h")
    def double(number: int) -> int:
        return 2 * number

    assert Awaited(double.spec, 1, math.inf).wait_s(is_notified=False) < 1
    for value in (*NO_NUMBERS[:5], -1):
        with pytest.raises(ArgumentError, match=r"timeout_s is .*; use 0 or more seconds"):
            Awaited(double.spec, 1, value)


def test_single_name_is_not_taken_for_a_list_of_handlers():
    app = App()
    app.handler("h", name="h")(lambda payload: None)

    assert list(choose(app, ["h"], ["H"])) == ["h"]
    with pytest.raises(ArgumentError, match="handlers is of type str; pass a list of names"):
        choose(app, "h", None)
    with pytest.raises(ArgumentError, match="queues is of type str; pass a list of names"):
        choose(app, None, "h")
