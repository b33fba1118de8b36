"""The guide to figures defines each metric of the database once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgsluice.ops.metrics.catalog import METRICS

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "figures.md"


@pytest.mark.parametrize("metric", [each.sample_name for each in METRICS])
def test_guide_defines_a_metric_once(metric):
    assert GUIDE.read_text().count(f"`{metric}`") == 1
