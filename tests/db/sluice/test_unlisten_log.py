"""sluice.unlisten_log: the session stops listening to one log."""

from __future__ import annotations

from support import rows, value


def test_it_leaves_the_other_logs(log):
    log.execute("select pgq.create_queue('other')")
    log.execute("select sluice.listen_log('log')")
    channel = value(log, "select sluice.listen_log('other')")

    log.execute("select sluice.unlisten_log('log')")

    assert rows(log, "select * from pg_listening_channels()") == [(channel,)]


def test_of_a_log_that_does_not_exist_it_is_nothing(log):
    log.execute("select sluice.unlisten_log('nope')")
    log.execute("select sluice.unlisten_log(null)")
