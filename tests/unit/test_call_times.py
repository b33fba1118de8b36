"""Durations of handler calls: buckets, the sliding window, and the slowest calls."""

from __future__ import annotations

from pgsluice.worker.engine.run.call_times import BOUNDS_S, WINDOW_S, CallTimes, FinishedCall

START_S = 100 * WINDOW_S


def test_call_counts_in_the_bucket_whose_upper_bound_it_does_not_exceed():
    times = CallTimes()
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[0] + 1e-6, BOUNDS_S[-1], BOUNDS_S[-1] + 1):
        times.add(seconds, 1, START_S)

    assert times.counts[:2] == [2, 1]
    assert times.counts[-2:] == [1, 1]
    assert sum(times.counts) == 5
    assert times.recent(START_S).buckets == [
        (0.0, BOUNDS_S[0], 2),
        (BOUNDS_S[0], BOUNDS_S[1], 1),
        (BOUNDS_S[-2], BOUNDS_S[-1], 1),
        (BOUNDS_S[-1], None, 1),
    ]


def test_calls_of_the_current_and_the_previous_window_are_recent():
    times = CallTimes()
    times.add(0.3, 1, START_S)
    times.add(0.7, 2, START_S + WINDOW_S)

    assert times.recent(START_S + 2 * WINDOW_S - 1).slowest == [
        FinishedCall(0.7, 2, START_S + WINDOW_S),
        FinishedCall(0.3, 1, START_S),
    ]
    assert times.recent(START_S + 2 * WINDOW_S).buckets == [(0.5, 1.0, 1)]


def test_figures_return_to_nothing_when_calls_stop():
    times = CallTimes()
    times.add(0.3, 1, START_S + WINDOW_S - 1)

    assert times.recent(START_S + 2 * WINDOW_S - 1).buckets == [(0.25, 0.5, 1)]
    assert times.recent(START_S + 2 * WINDOW_S) == ([], [])
    assert sum(times.counts) == 1
    assert times.sum_s == 0.3


def test_window_before_a_pause_does_not_become_the_previous_one():
    times = CallTimes()
    times.add(9.0, 1, START_S)
    times.add(0.1, 2, START_S + 3 * WINDOW_S)

    assert [each.message_id for each in times.recent(START_S + 3 * WINDOW_S).slowest] == [2]


def test_five_slowest_calls_of_both_windows_are_kept():
    times = CallTimes()
    for number in range(20):
        times.add(number % 7 + number / 100, number, START_S + number * WINDOW_S / 10)

    assert [each.message_id for each in times.recent(START_S + 2 * WINDOW_S - 1).slowest] == [
        *(13, 6, 19, 12, 5),
    ]


def test_handler_without_calls_has_no_recent_ones():
    assert CallTimes().recent(START_S) == ([], [])
