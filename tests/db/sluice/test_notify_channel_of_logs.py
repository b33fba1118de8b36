import psycopg
import pytest

from support import replace_in, value
from support.log import tick


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )


@pytest.mark.parametrize(
    "call",
    [
        "select pgq.ticker('changes')",
        "select pgq.ticker()",
        "select * from sluice.tick()",
        "select sluice.log_tick('changes')",
    ],
)
def test_each_tick_is_notified_once_by_its_ticker(database, connection, log, call):
    channel = value(connection, "select sluice.notify_channel('changes', 'log')")
    assert channel == "sluice.log_1"
    with database.connect() as listener:
        listener.execute(f'listen "{channel}"')
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        connection.execute(call)

        (notification,) = listener.notifies(timeout=20, stop_after=1)
        assert (notification.channel, notification.payload) == (channel, "2")


def test_nothing_is_notified_while_notifications_pile_up(database, connection, log):
    """When the server's notification queue is full, a commit with a notification fails."""
    replace_in(
        connection, "pgq._notify_tick(integer,bigint)", "pg_notification_queue_usage()", "0.6"
    )
    with database.connect() as listener:
        listener.execute('listen "sluice.log_1"')
        tick(connection)
        connection.execute("""notify "sluice.log_1", 'behind it'""")

        (notification,) = listener.notifies(timeout=20, stop_after=1)
        assert notification.payload == "behind it"


def test_an_unknown_log_is_an_error(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select sluice.notify_channel('missing', 'log')")
    assert caught.value.sqlstate == "PQ001"
