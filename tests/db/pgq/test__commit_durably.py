"""pgq._commit_durably: a synchronous commit, whatever the session's synchronous_commit."""

import pytest

from support import value


@pytest.mark.parametrize(
    ("setting", "within"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")]
)
def test_a_tick_is_committed_synchronously(connection, setting, within):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    connection.execute(f"set synchronous_commit = {setting}")
    with connection.transaction():
        assert value(connection, "select sluice.log_tick('changes')") == 2
        assert value(connection, "show synchronous_commit") == within
    assert value(connection, "show synchronous_commit") == setting
