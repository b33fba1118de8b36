import pytest

from support import rows, value
from support.log import error_of

REGISTER = "select pgq_coop.register_subconsumer(%s, %s, %s)"
NAMES = "select consumer_name, last_tick from pgq.get_consumer_info()"


def test_a_main_consumer_and_a_member_that_shares_its_id(connection, log):
    named = (
        "select pgq_coop.register_subconsumer(i_queue_name => 'changes',"
        " i_consumer_name => 'lake', i_subconsumer_name => 'one')"
    )

    assert value(connection, named) == 1
    assert value(connection, named) == 0
    assert rows(connection, NAMES) == [("lake", 1), ("lake.one", None)]
    assert rows(connection, "select distinct sub_id from pgq.subscription") == [(1,)]


def test_a_consumer_that_is_there_keeps_its_position(connection, consumer):
    assert value(connection, REGISTER, "changes", "lake", "one") == 1
    assert rows(connection, NAMES) == [("lake", 1), ("lake.one", None)]


@pytest.mark.parametrize(
    ("names", "sqlstate", "message"),
    [
        (("missing", "lake", "one"), "PQ001", "Event queue not created yet"),
        (("changes", None, "one"), "22004", "consumer name is null"),
        (("changes", "lake", None), "22004", "subconsumer name is null"),
        (("changes", "l.a", "b"), "PQ004", "consumer l.a on queue changes is a subconsumer"),
        (("changes", "x", "y"), "PQ004", "consumer x.y on queue changes is no subconsumer of x"),
    ],
)
def test_invalid_registration_is_an_error(connection, log, names, sqlstate, message):
    connection.execute(REGISTER, ("changes", "l", "a"))
    connection.execute("select pgq.register_consumer('changes', 'x.y')")

    assert error_of(connection, REGISTER, *names) == (sqlstate, message)


def test_any_reader_may_register_and_consume(database, connection, consumer, role):
    connection.execute(f"grant pgq_reader to {role}")
    with database.connect(user=role) as reader:
        assert value(reader, REGISTER, "changes", "lake", "one") == 1
        batch = value(reader, "select pgq_coop.next_batch('changes', 'lake', 'one')")
        assert value(reader, "select pgq_coop.finish_batch(%s)", batch) == 1
        query = "select pgq_coop.unregister_subconsumer('changes', 'lake', 'one', 0)"
        assert value(reader, query) == 1
