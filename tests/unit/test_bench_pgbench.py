"""Rates of pgbench: they count no transaction of a session that has just connected."""

from __future__ import annotations

import pytest
from bench.pgbench import FIRST_CALLS, steady_rate

from pgsluice.errors import EmbeddedServerError


def test_rate_does_not_contain_the_first_transactions_of_a_session():
    slow = [number * 0.5 for number in range(1, FIRST_CALLS + 1)]
    assert steady_rate([slow + [slow[-1] + number / 100 for number in range(1, 101)]]) == (
        pytest.approx(100)
    )


def test_warm_up_of_few_transactions_is_a_fifth_of_them():
    assert steady_rate([[9.0, 10.0, 11.0, 12.0, 13.0]]) == pytest.approx(1)
    assert steady_rate([[9.0, 10.0, 11.0]]) == pytest.approx(1)


def test_rate_counts_only_while_all_sessions_run():
    late = [5 + number / 10 for number in range(1, 201)]
    early = [number / 10 for number in range(1, 201)]
    assert steady_rate([early, late]) == pytest.approx(20, rel=0.02)


def test_session_that_ended_before_the_warm_up_of_another_is_named():
    with pytest.raises(EmbeddedServerError, match="had ended before another's warm-up"):
        steady_rate([[1.0, 2.0], [3.0, 4.0]])
