import pytest

from support import rows, value
from support.log import coop_next, ids

POSITIONS = "select consumer_name, last_tick, current_batch from pgq.get_consumer_info()"


@pytest.mark.parametrize("function", ["pgq_coop.finish_batch", "pgq.finish_batch"])
def test_the_member_is_idle_again(connection, consumer, function):
    """PgQ's clients also call the function for plain consumers, pgq.finish_batch."""
    batch = coop_next(connection, "one")

    assert value(connection, f"select {function}(%s)", batch) == 1
    assert rows(connection, POSITIONS) == [("lake", 2, None), ("lake.one", None, None)]
    assert ids(connection, coop_next(connection, "one")) == [2]


def test_batch_not_open_for_a_member_returns_0_with_a_warning(connection, consumer):
    main = value(connection, "select pgq.next_batch('changes', 'lake')")
    warnings = []
    connection.add_notice_handler(lambda d: warnings.append((d.severity, d.message_primary)))

    for batch in (4711, main, None):
        assert value(connection, "select pgq_coop.finish_batch(i_batch_id => %s)", batch) == 0

    assert warnings == [
        ("WARNING", f"coop_finish_batch: batch {shown} not found")
        for shown in ("4711", str(main), "<NULL>")
    ]
    assert value(connection, "select pgq.finish_batch(%s)", main) == 1
