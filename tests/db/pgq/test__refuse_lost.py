"""pgq._refuse_lost: every call of a consumer with an abandoned position raises PQ006."""

import psycopg
import pytest

from support import value
from support.log import error_of, give_up, tick

MESSAGE = "position of consumer lake on queue changes was lost: more than 1 GB behind"


@pytest.fixture
def batch(connection, consumer):
    """An open batch of a consumer whose position was abandoned afterwards."""
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    give_up(connection, "more than 1 GB behind")
    return batch


@pytest.mark.parametrize(
    "call",
    [
        "pgq.next_batch('changes', 'lake')",
        "pgq.next_batch_info('changes', 'lake')",
        "pgq.next_batch_custom('changes', 'lake', null, 1, null)",
        "pgq.finish_batch({batch})",
        "sluice.hold_batch({batch})",
        "sluice.log_start('changes', 'lake', 'earliest')",
        "sluice.log_commit('changes', 'lake', 2)",
        "pgq_coop.next_batch('changes', 'lake', 'one')",
    ],
)
def test_every_call_about_the_position_says_why(connection, batch, call):
    assert error_of(connection, f"select {call.format(batch=batch)}") == ("PQ006", MESSAGE)


def test_the_hint_names_the_remedy(connection, batch):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.next_batch('changes', 'lake')")
    assert caught.value.diag.message_hint == (
        "move it to a tick, such as the oldest one that is kept: "
        "pgq.register_consumer_at('changes', 'lake', 1)"
    )


def test_registering_again_does_not_hide_it(connection, batch):
    assert value(connection, "select pgq.register_consumer('changes', 'lake')") == 0
    assert error_of(connection, "select pgq.next_batch('changes', 'lake')") == ("PQ006", MESSAGE)


def test_consumer_registered_again_continues(connection, batch):
    connection.execute("select pgq.unregister_consumer('changes', 'lake')")
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    tick(connection)

    assert value(connection, "select pgq.next_batch('changes', 'lake')") == batch + 1
