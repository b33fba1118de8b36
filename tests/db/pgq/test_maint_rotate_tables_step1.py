"""The two rotation steps of PgQ's daemon.

sluice/test_rotate.py covers the internal functions, such as pgq._rotate, _reclaim and _switch.
"""

import psycopg
import pytest

from support import rows, value

STEP1 = "select pgq.maint_rotate_tables_step1('changes')"
STATE = "select queue_cur_table, queue_switch_step2 is null from pgq.queue"


@pytest.fixture
def due(connection, log):
    connection.execute("update pgq.queue set queue_rotation_period = '0'")


def test_the_first_step_switches_and_leaves_the_second_open(connection, due):
    assert value(connection, STEP1) == 0
    assert rows(connection, STATE) == [(1, True)]
    assert value(connection, "select pgq.maint_rotate_tables_step2()") == 0
    assert rows(connection, STATE) == [(1, False)]


def test_a_log_whose_time_it_is_not_stays(connection, log):
    assert value(connection, STEP1) == 0
    assert rows(connection, STATE) == [(0, False)]


@pytest.mark.parametrize(
    "call",
    [
        STEP1,
        "select pgq.ticker('changes')",
        "select * from sluice.rotate()",
        "select pgq.maint_rotate_tables_step2()",
    ],
)
def test_next_caller_completes_the_second_step(connection, due, call):
    connection.execute(STEP1)
    first = value(connection, "select queue_switch_step1 from pgq.queue")
    connection.execute("update pgq.queue set queue_rotation_period = '1 hour'")

    connection.execute(call)

    assert value(connection, "select queue_switch_step2 > %s::xid8 from pgq.queue", first)


def test_two_first_steps_in_one_transaction_are_one(connection, due):
    with connection.transaction():
        connection.execute(STEP1)
        connection.execute(STEP1)
        connection.execute("select pgq.maint_rotate_tables_step2()")
        connection.execute("select pgq.ticker('changes')")
    assert rows(connection, STATE) == [(1, True)]


@pytest.mark.parametrize("name", ["missing", None])
def test_no_such_log_is_nothing_to_do(connection, name):
    assert value(connection, "select pgq.maint_rotate_tables_step1(%s::text)", name) == 0


def test_an_old_snapshot_is_refused(connection, due):
    connection.execute("set default_transaction_isolation = 'repeatable read'")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(STEP1)
    assert caught.value.sqlstate == "PQ004"


def test_internal_steps_of_the_rotation(connection, log):
    """Covers the functions called here, and pgq._finish_switch."""
    assert rows(connection, "select * from pgq._segments(1)") == [(0,), (1,), (2,)]
    assert rows(
        connection, "select first_tick, last_tick, is_empty from pgq._segment_span(1, 0)"
    ) == [(1, 1, False)]
    assert rows(
        connection, "select first_tick, last_tick, is_empty from pgq._segment_span(1, 1)"
    ) == [(None, None, True)]
    kept = "a consumer may move back to it within its rotation period"
    assert rows(connection, "select * from pgq._segment_use(1, 0)") == [(None, kept)]
    assert value(connection, "select pgq._lock_segment(1, 0, 'access share', 0)") is True
    assert value(connection, "select pgq._locked_by(1, 0)") is None
    assert rows(connection, "select * from pgq._pinned_bytes(1, '{0,1,2}')") == []
    assert rows(connection, "select * from pgq._give_up(1, '{1,2}')") == []
    connection.execute("select pgq._copy_grants('event_1_0', 'event_1_1')")
