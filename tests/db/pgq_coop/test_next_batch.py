"""Batches of cooperative consumers: next_batch, with _member and _take_over."""

from support import rows, value
from support.log import coop_next, error_of, fall_silent, give_up, ids, tick

POSITIONS = "select consumer_name, last_tick, next_tick from pgq.get_consumer_info()"


def test_members_share_the_batches_of_the_main_consumer(connection, consumer):
    batches = [coop_next(connection, member) for member in ("one", "two", "three", "four")]

    assert batches[3] is None
    assert [ids(connection, batch) for batch in batches[:3]] == [[1], [2], [3]]


def test_the_main_consumer_goes_on_and_the_member_holds_what_it_reads(connection, consumer):
    coop_next(connection, "one")

    assert rows(connection, POSITIONS) == [("lake", 2, None), ("lake.one", 1, 2)]


def test_a_member_is_registered_when_it_asks_first(connection, log):
    query = (
        "select pgq_coop.next_batch(i_queue_name => 'changes',"
        " i_consumer_name => 'lake', i_subconsumer_name => 'one')"
    )

    assert value(connection, query) is None
    tick(connection)
    assert value(connection, query) == 1


def test_an_open_batch_is_returned_again_and_shows_that_the_member_lives(connection, consumer):
    batch = coop_next(connection, "one")
    fall_silent(connection, "one")

    assert coop_next(connection, "one") == batch
    assert coop_next(connection, "two", "30 minutes") != batch
    assert value(connection, "select pgq_coop.finish_batch(%s)", batch) == 1


def test_the_batch_of_a_dead_member_comes_to_another_under_a_new_id(connection, consumer):
    old = coop_next(connection, "one")
    fall_silent(connection, "one")

    new = coop_next(connection, "two", "30 minutes")

    assert new != old
    assert ids(connection, new) == [1]
    assert rows(connection, POSITIONS) == [("lake", 2, None), ("lake.two", 1, 2)]


def test_stale_subconsumer_cannot_finish_the_batch_of_its_successor(connection, consumer):
    old = coop_next(connection, "one")
    fall_silent(connection, "one")
    new = coop_next(connection, "two", "30 minutes")

    assert value(connection, "select pgq_coop.finish_batch(%s)", old) == 0
    assert error_of(connection, "select * from pgq.get_batch_events(%s)", old)[0] == "PQ003"
    assert value(connection, "select pgq_coop.finish_batch(%s)", new) == 1
    assert ids(connection, coop_next(connection, "one")) == [2]


def test_without_a_dead_interval_nothing_is_taken_over(connection, consumer):
    coop_next(connection, "one")
    fall_silent(connection, "one")

    assert ids(connection, coop_next(connection, "two")) == [2]


def test_a_batch_that_was_given_up_is_not_taken_over(connection, consumer):
    coop_next(connection, "one")
    fall_silent(connection, "one")
    give_up(connection, "too late", "lake.one")

    assert ids(connection, coop_next(connection, "two", "30 minutes")) == [2]


def test_a_main_consumer_with_an_open_batch_of_its_own_is_refused(connection, consumer):
    connection.execute("select pgq.next_batch('changes', 'lake')")

    query = "select pgq_coop.next_batch('changes', 'lake', 'one')"
    assert error_of(connection, query) == ("PQ004", "main consumer has batch open?")
