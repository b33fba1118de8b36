import psycopg
import pytest

from support import value


def test_a_forgotten_sink_begins_anew(connection):
    connection.execute("select sluice.sink_commit('copier', 5)")

    assert value(connection, "select sluice.forget_sink('copier')") is True
    assert value(connection, "select sluice.forget_sink('copier')") is False
    assert value(connection, "select sluice.sink_commit('copier', 0)") is True


def test_only_administrators_may(as_member):
    assert as_member("sluice_admin", "select sluice.forget_sink('s')") == [(False,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", "select sluice.forget_sink('s')")
