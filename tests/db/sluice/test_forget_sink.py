import psycopg
import pytest

from support import value


def test_a_forgotten_sink_begins_anew(connection):
    connection.execute("select sluice.sink_commit('copier', 5)")

    assert value(connection, "select sluice.forget_sink('copier')") is True
    assert value(connection, "select sluice.forget_sink('copier')") is False
    assert value(connection, "select sluice.sink_commit('copier', 0)") is True


def test_only_who_administers_or_writes_sinks_may(as_member):
    for member_of in ("sluice_admin", "sluice_writer", "pgq_writer"):
        assert as_member(member_of, "select sluice.forget_sink('s')") == [(False,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", "select sluice.forget_sink('s')")
