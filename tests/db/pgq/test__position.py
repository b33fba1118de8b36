"""pgq._position, _hold_batch and similar functions: they use the index whatever the statistics."""

import pytest

from support import value

SCANS = "select seq_scan, seq_tup_read from pg_stat_user_tables where relname = 'position_0'"


@pytest.mark.parametrize(
    "function",
    [
        "pgq._position(integer,integer)",
        "pgq._hold_batch(bigint)",
        "pgq.finish_batch(bigint)",
        "pgq.next_batch_custom(text,text,interval,integer,interval)",
        "sluice.hold_batch(bigint)",
    ],
)
def test_a_ledger_is_never_read_whole_even_by_a_plan_from_when_it_was_nearly_empty(
    connection, consumer, function
):
    call = {
        "pgq._position(integer,integer)": "pgq._position(1, 0)",
        "pgq._hold_batch(bigint)": "pgq._hold_batch(1)",
        "pgq.finish_batch(bigint)": "pgq.finish_batch(1)",
        "pgq.next_batch_custom(text,text,interval,integer,interval)": "pgq.next_batch('changes', 'lake')",
        "sluice.hold_batch(bigint)": "sluice.hold_batch(1)",
    }[function]
    connection.execute("update pgq.subscription set sub_batch = 1, sub_next_tick = 1")
    connection.execute("analyze pgq.position_0, pgq.subscriber")

    def reads_whole():
        with connection.transaction(force_rollback=True):
            before = value(
                connection, "select pg_stat_get_xact_numscans('pgq.position_0'::regclass)"
            )
            connection.execute(f"select {call}")
            after = value(
                connection, "select pg_stat_get_xact_numscans('pgq.position_0'::regclass)"
            )
        return after - before

    assert reads_whole() == 0, "sequential scans of the ledger"
    connection.execute(f"alter function {function} reset enable_seqscan")
    connection.execute("discard plans")
    assert reads_whole() > 0, "without the setting the plan is a sequential scan"
