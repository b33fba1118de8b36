"""Throughput of a larger cluster, computed from measured costs."""

from __future__ import annotations

import pytest
from bench.larger_cluster import Costs, computed, overhead
from bench.workloads.spark_size import share_out

COSTS = Costs(executors_us=8.0, server_us=2.0, fixed_ms=200.0, shard_ms=10.0)


def test_slower_of_executors_and_servers_determines_the_throughput():
    # 300 ms of overhead, and 1 s for a million events of 1 us: 8 us on 8 cores, or 2 us on 2 cores.
    assert COSTS.events_per_s(8, 4, 10, 1_000_000) == pytest.approx(1_000_000 / 1.3)
    assert COSTS.events_per_s(80, 2, 10, 1_000_000) == pytest.approx(1_000_000 / 1.3)


def test_overhead_of_a_micro_batch_is_a_fixed_part_and_one_per_shard():
    assert overhead({1: 210.0, 2: 220.0, 4: 240.0, 8: 280.0}) == pytest.approx((200.0, 10.0))
    assert overhead({4: 240.0}) == (240.0, 0.0)


def test_overhead_per_shard_is_never_less_than_nothing():
    assert overhead({1: 348.0, 2: 300.0}) == pytest.approx((324.0, 0.0))


def test_each_cluster_has_its_sizes_and_throughput():
    for cluster in computed(COSTS):
        assert cluster["events_per_s"] == pytest.approx(
            COSTS.events_per_s(
                cluster["executor_cores"],
                cluster["server_cores"],
                cluster["shards"],
                cluster["rows_per_micro_batch"],
            ),
            abs=1,
        )


@pytest.mark.parametrize("is_skewed", [False, True])
@pytest.mark.parametrize("count", [8, 1_000, 100_001])
def test_shares_of_the_shards_add_up_to_all_events(count: int, is_skewed: bool):
    shares = share_out(count, [f"shard_{number}" for number in range(8)], is_skewed)

    assert sum(shares.values()) == count
    assert shares["shard_0"] == count // (2 if is_skewed else 8)
