"""Percentiles, rates and backlogs that the demo computes from its measurements."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from pgsluice.demo import measure
from pgsluice.demo.measure import Latency

moments = st.lists(st.floats(0, 100, allow_nan=False), max_size=50).map(sorted)


def test_percentiles_are_nearest_ranks():
    hundred = [float(value) for value in range(1, 101)]

    assert [measure.percentile(hundred, p) for p in (1, 50, 95, 99, 100)] == [1, 50, 95, 99, 100]


def test_percentile_of_few_values_is_an_existing_value():
    assert measure.percentile([3.0, 8.0], 50) == 3.0
    assert measure.percentile([3.0, 8.0], 51) == 8.0


def test_no_measurement_gives_nan_and_not_zero():
    latency = Latency.of("nothing", [])

    assert latency.count == 0
    assert math.isnan(latency.p50_s)
    assert math.isnan(latency.max_s)


def test_a_latency_sorts_what_it_is_given():
    latency = Latency.of("three", [0.3, 0.1, 0.2])

    assert latency.seconds == [0.1, 0.2, 0.3]
    assert (latency.p50_s, latency.p99_s, latency.max_s) == (0.2, 0.3, 0.3)


@given(moments, st.sampled_from([0.5, 1.0, 7.0]))
def test_rates_account_for_every_moment(times: list[float], step_s: float):
    rates = measure.rate_per_s(times, 0.0, 100.0, step_s)

    assert math.isclose(sum(rates) * step_s, len(times), abs_tol=1e-6)


@given(moments, st.lists(st.floats(0, 50), max_size=50))
def test_outstanding_is_what_began_and_did_not_end(begun: list[float], lengths: list[float]):
    pairs = [(begin, begin + length) for begin, length in zip(begun, lengths, strict=False)]
    begins = sorted(begin for begin, _ in pairs)
    ends = sorted(end for _, end in pairs)

    counts = measure.outstanding(begins, ends, 0.0, 150.0, 10.0)

    by_hand = [
        sum(begin <= edge < end for begin, end in pairs) for edge in range(0, 10 * len(counts), 10)
    ]
    assert counts == by_hand
    assert counts[-1] == 0


def test_rows_of_a_commit_are_spread_over_the_time_since_the_one_before():
    rates = measure.spread_rate_per_s([(2.0, 20), (4.0, 40)], 0.0, 4.5, 1.0)

    assert rates == [10.0, 10.0, 20.0, 20.0, 0.0]


def test_time_without_pauses_leaves_out_an_interruption():
    assert measure.active_s([0.0, 1.0, 3.0, 60.0, 61.0]) == 4.0
    assert measure.active_s([5.0]) == 0.0
