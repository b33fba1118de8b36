"""sluice.listen and sluice.unlisten of a log: the session is notified of each tick of a log."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value


def channels(connection):
    return [name for (name,) in rows(connection, "select * from pg_listening_channels()")]


def test_it_listens_to_the_channel_of_the_log(log):
    channel = value(log, "select sluice.listen('log', 'log')")

    assert channel == value(log, "select sluice.notify_channel('log', 'log')")
    assert channels(log) == [channel]


def test_it_takes_effect_with_the_commit(log, database):
    with database.connect(autocommit=False) as connection:
        connection.execute("select sluice.listen('log', 'log')")
        connection.rollback()

        assert channels(connection) == []


def test_a_log_that_does_not_exist_is_an_error(log):
    with pytest.raises(psycopg.Error) as caught:
        log.execute("select sluice.listen('nope', 'log')")

    assert caught.value.sqlstate == "PQ001"


def test_a_reader_is_notified_of_each_tick(log, database, role):
    log.execute(f"grant sluice_reader to {role}")
    with database.connect(user=role) as reader:
        channel = value(reader, "select sluice.listen('log', 'log')")
        log.execute("select pgq.insert_event('log', 't', 'x')")
        tick_id = value(log, "select sluice.log_tick('log')")

        (heard,) = reader.notifies(timeout=30, stop_after=1)

    assert (heard.channel, heard.payload) == (channel, str(tick_id))


def test_it_leaves_the_other_logs(log):
    log.execute("select pgq.create_queue('other')")
    log.execute("select sluice.listen('log', 'log')")
    channel = value(log, "select sluice.listen('other', 'log')")

    log.execute("select sluice.unlisten('log', 'log')")

    assert rows(log, "select * from pg_listening_channels()") == [(channel,)]


def test_of_a_log_that_does_not_exist_it_is_nothing(log):
    log.execute("select sluice.unlisten('nope', 'log')")
    log.execute("select sluice.unlisten(null, 'log')")
