import pytest

from support import rows, value
from support.log import coop_next, error_of, give_up

UNREGISTER = "select pgq_coop.unregister_subconsumer('changes', 'lake', 'one', %s::integer)"
NAMES = "select consumer_name from pgq.get_consumer_info()"


def test_the_member_goes_and_the_others_stay(connection, consumer):
    for member in ("one", "two"):
        coop_next(connection, member)

    assert value(connection, UNREGISTER, 1) == 1
    assert value(connection, UNREGISTER, 1) == 0
    assert rows(connection, NAMES) == [("lake",), ("lake.two",)]
    assert rows(connection, "select co_name from pgq.consumer order by 1") == rows(
        connection, NAMES
    )


def test_an_open_batch_makes_it_fail_unless_its_events_may_go(connection, consumer):
    batch = coop_next(connection, "one")

    assert error_of(connection, UNREGISTER, 0) == ("PQ004", "subconsumer has active batch")
    assert value(connection, "select pgq_coop.finish_batch(%s)", batch) == 1
    assert value(connection, UNREGISTER, 0) == 1


@pytest.mark.parametrize(("handling", "shown"), [(2, "2"), (-1, "-1"), (None, "NULL")])
def test_another_way_to_handle_a_batch_is_unknown(connection, consumer, handling, shown):
    assert error_of(connection, UNREGISTER, handling) == (
        "22023",
        f"invalid batch handling: {shown}",
    )


def test_a_consumer_that_is_no_member_is_left_alone(connection, consumer):
    connection.execute("select pgq.register_consumer('changes', 'lake.one')")

    assert value(connection, UNREGISTER, 1) == 0


def test_subconsumer_with_an_abandoned_batch_can_be_unregistered(connection, consumer):
    coop_next(connection, "one")
    give_up(connection, "too late", "lake.one")

    query = "select pgq_coop.next_batch('changes', 'lake', 'one')"
    assert error_of(connection, query) == (
        "PQ006",
        "position of consumer lake.one on queue changes was lost: too late",
    )
    assert value(connection, UNREGISTER, 1) == 1
    assert coop_next(connection, "one") is not None
