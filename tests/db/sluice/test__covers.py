"""sluice._covers: true if one snapshot sees all that another sees; the same algebra in Python."""

from __future__ import annotations

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgsluice.spark.snapshots import Snapshot

IDS = range(3, 14)
snapshots = st.builds(
    lambda xmax, running: Snapshot.of(xmax, {txid for txid in running if txid < xmax}),
    st.sampled_from(IDS),
    st.sets(st.sampled_from(IDS)),
)
SEEN = """
select array(select x::text::int from unnest(%s::xid8[]) as x where pg_visible_in_snapshot(x, %s::pg_snapshot))
"""


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(one=snapshots, other=snapshots, txid=st.sampled_from(IDS))
def test_python_and_the_server_agree_on_what_snapshots_see(
    connection: psycopg.Connection, one: Snapshot, other: Snapshot, txid: int
):
    def seen(snapshot: Snapshot) -> set[int]:
        row = connection.execute(SEEN, ([str(number) for number in IDS], str(snapshot))).fetchone()
        assert row is not None
        assert Snapshot.parse(str(snapshot)) == snapshot
        assert [number for number in IDS if snapshot.sees(number)] == row[0]
        return set(row[0])

    both = seen(one), seen(other)

    assert seen(one.cut(txid)) == {number for number in both[0] if number < txid}
    assert seen(one.union(other)) == both[0] | both[1]
    assert one.covers(other) == (both[0] >= both[1])
    assert connection.execute(
        "select sluice._covers(%s::pg_snapshot, %s::pg_snapshot)", (str(one), str(other))
    ).fetchone() == (both[0] >= both[1],)
