import psycopg
import pytest

from support import rows, value
from support.log import tick


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        """update pgq.queue
        set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0', queue_rotation_period = '0'"""
    )
    for consumer in ("lake", "slow"):
        connection.execute("select pgq.register_consumer('changes', %s)", (consumer,))


def fill_and_rotate(connection, events=10):
    connection.execute(
        "select pgq.insert_event('changes', 't', 'd') from generate_series(1, %s)", (events,)
    )
    tick(connection)
    return rows(connection, "select action, reason from sluice.rotate()")


def lost(connection):
    return dict(rows(connection, "select consumer_name, lost from sluice.list_consumers()"))


def test_without_a_policy_everything_is_kept(connection, log):
    for _ in range(5):
        fill_and_rotate(connection)

    assert lost(connection) == {"lake": None, "slow": None}
    assert value(connection, "select count(*) from pgq.event_1") == 50


def read_all(connection, consumer):
    while value(connection, "select pgq.next_batch('changes', %s)", consumer):
        connection.execute(
            "select pgq.finish_batch(sub_batch) from pgq.subscription where sub_batch is not null"
        )


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ('{"max_lag_events": 25}', "lag of 30 events exceeds the limit of 25"),
        ('{"max_lag_bytes": 40000}', "lag of 65536 bytes exceeds the limit of 40000"),
        ('{"max_lag_time": "1 hour"}', "lag of 02:00:0"),
    ],
)
def test_a_consumer_beyond_its_limit_is_given_up_and_its_events_go(connection, log, limit, reason):
    connection.execute("select sluice.set_log_options('changes', %s)", (limit,))
    for _ in range(2):
        fill_and_rotate(connection)
        read_all(connection, "lake")
    assert lost(connection) == {"lake": None, "slow": None}

    if "time" in limit:
        connection.execute(
            """update pgq.position_0 as p set pos_last_time = pos_last_time - interval '2 hours'
            from pgq.subscriber as s join pgq.consumer as c on c.co_id = s.sub_consumer
            where p.pos_subscriber = s.sub_key and c.co_name = 'slow'"""
        )
        connection.execute("update pgq.event_1 set ev_time = ev_time - interval '2 hours'")
        # Ticks at even distances, as one long gap means a clock step or a stopped ticker.
        connection.execute(
            """update pgq.tick_1 as t set tick_time = t.tick_time - (l.last_id + 1 - t.tick_id) * interval '40 minutes'
            from (select max(tick_id) as last_id from pgq.tick_1) as l"""
        )
    steps = fill_and_rotate(connection)

    assert steps[0][0] == "given up"
    assert steps[0][1].startswith(f"consumer slow: {reason}")
    assert [action for action, _ in steps].count("reclaimed") == 2
    assert lost(connection)["lake"] is None
    assert lost(connection)["slow"].startswith(reason)


def test_elapsed_time_alone_abandons_no_consumer(connection, log):
    """The ticker was stopped for a day, so consumers had nothing to read."""
    connection.execute("select sluice.set_log_options('changes', '{\"max_lag_time\": \"1 hour\"}')")
    connection.execute("update pgq.tick set tick_time = tick_time - interval '1 day'")
    connection.execute("update pgq.position_0 set pos_last_time = pos_last_time - interval '1 day'")

    connection.execute("select * from sluice.rotate()")

    assert lost(connection) == {"lake": None, "slow": None}


def test_an_open_batch_is_closed(connection, log):
    fill_and_rotate(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'slow')")
    connection.execute("select sluice.set_log_options('changes', '{\"max_lag_events\": 5}')")

    fill_and_rotate(connection)

    with pytest.raises(psycopg.Error):
        connection.execute("select * from pgq.get_batch_events(%s)", (batch,))


def test_a_consumer_that_is_being_moved_is_not_given_up(database, connection, log):
    connection.execute("select sluice.set_log_options('changes', '{\"max_lag_events\": 5}')")
    fill_and_rotate(connection, events=1)
    with database.connect(autocommit=False) as slow:
        slow.execute("select pgq.next_batch('changes', 'slow')")
        fill_and_rotate(connection)
        assert lost(connection)["slow"] is None
        assert lost(connection)["lake"] is not None


def test_a_keeper_is_never_given_up_and_is_waited_for_before_it_is_there(connection, log):
    connection.execute(
        'select sluice.set_log_options(\'changes\', \'{"max_lag_events": 5, "keepers": ["slow", "archive"]}\')'
    )
    fill_and_rotate(connection)
    fill_and_rotate(connection)
    assert lost(connection)["slow"] is None
    assert lost(connection)["lake"] is not None
    read_all(connection, "slow")

    assert fill_and_rotate(connection)[0] == ("kept", "kept for archive, not registered yet")

    connection.execute("select sluice.log_start('changes', 'archive', 'earliest')")
    assert fill_and_rotate(connection)[0] == ("kept", "not yet read by archive")
    read_all(connection, "archive")
    read_all(connection, "slow")
    assert {a for a, _ in rows(connection, "select action, reason from sluice.rotate()")} == {
        "reclaimed",
        "switched",
    }


LIMITS = (
    "select max_lag_bytes, max_lag_events, max_lag_time::text, keepers from sluice.log_options()"
)


def change(connection, options):
    return value(connection, "select sluice.set_log_options('changes', %s)", options)


def test_only_the_given_options_change_and_they_go_with_their_log(connection, log):
    assert change(connection, '{"max_lag_bytes": 1000, "max_lag_time": "1 day"}') == "changed"
    assert change(connection, '{"keepers": ["b", "a", "a"], "max_lag_bytes": null}') == "changed"
    assert rows(connection, LIMITS) == [(None, None, "1 day", ["a", "b"])]
    assert change(connection, '{"keepers": ["a", "b"]}') == "unchanged"

    connection.execute("select pgq.drop_queue('changes', true)")

    assert value(connection, "select count(*) from sluice.log_policy") == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("'missing', '{}'", "PQ001"),
        ("'changes', '{\"max_lag_bytes\": 0}'", "22023"),
        ("'changes', '{\"max_lag_events\": -1}'", "22023"),
        ("'changes', '{\"max_lag_time\": 0}'", "22023"),
        ("'changes', '{\"rotation_period\": -1}'", "22023"),
        ("'changes', '{\"ticker_max_count\": \"many\"}'", "22023"),
        ("'changes', '{\"queue_ntables\": 2}'", "22023"),
        ("'changes', '{\"queue_name\": \"x\"}'", "22023"),
        ("'changes', null", "22023"),
        ("'changes', '{\"keepers\": [null]}'", "22004"),
    ],
)
def test_errors(connection, log, arguments, code):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select sluice.set_log_options({arguments})")
    assert caught.value.sqlstate == code


SETTINGS = (
    "select ticker_max_count, ticker_max_lag::text, ticker_idle_period::text, ticker_paused, rotation_period::text, "
    "external_ticker from sluice.log_options('changes')"
)


def test_options_that_pgq_has_are_set_and_reset(connection):
    connection.execute("select pgq.create_queue('changes')")
    defaults = rows(connection, SETTINGS)

    change(
        connection,
        """{"ticker_max_count": 7, "ticker_max_lag": 1, "ticker_idle_period": "5 s", "ticker_paused": true,
        "rotation_period": "30 minutes", "external_ticker": true}""",
    )

    assert rows(connection, SETTINGS) == [(7, "00:00:01", "00:00:05", True, "00:30:00", True)]
    assert (
        value(connection, "select queue_ticker_max_count from pgq.get_queue_info('changes')") == 7
    )
    change(
        connection,
        """{"ticker_max_count": null, "ticker_max_lag": null, "ticker_idle_period": null, "ticker_paused": null,
        "rotation_period": null, "external_ticker": null}""",
    )
    assert rows(connection, SETTINGS) == defaults


def test_a_change_is_recorded_and_one_that_changes_nothing_is_not(connection):
    connection.execute("select pgq.create_queue('changes')")

    change(connection, '{"max_lag_events": 5}')
    change(connection, '{"max_lag_events": 5}')

    assert rows(connection, "select action, queue_name, filter from sluice.list_actions()") == [
        ("set_log_options", "changes", {"max_lag_events": 5})
    ]


def claim(connection, qty=1):
    return rows(connection, "select ev_id from sluice.claim('changes', 'mail', %s)", qty)


def test_abandoned_share_group_is_an_error_and_can_be_created_again(connection, log):
    connection.execute("select sluice.create_group('changes', 'mail')")
    connection.execute(
        'select sluice.set_log_options(\'changes\', \'{"max_lag_events": 25, "keepers": ["lake", "slow"]}\')'
    )
    assert fill_and_rotate(connection)[0][0] == "switched"
    assert claim(connection) == [(1,)]
    for _ in range(2):
        steps = fill_and_rotate(connection)
    assert ("given up", "consumer mail: lag of 30 events exceeds the limit of 25") in steps

    with pytest.raises(psycopg.Error, match="was lost: lag of 30 events") as caught:
        claim(connection)
    assert caught.value.sqlstate == "PQ006"
    assert "sluice.drop_group('changes', 'mail')" in caught.value.diag.message_hint
    assert value(connection, "select lost from sluice.list_groups('changes', 'mail')") == (
        "lag of 30 events exceeds the limit of 25"
    )

    connection.execute("select sluice.drop_group('changes', 'mail')")
    connection.execute("select sluice.create_group('changes', 'mail')")
    connection.execute("select pgq.insert_event('changes', 't', 'new')")
    assert claim(connection, 9) == [(31,)]
