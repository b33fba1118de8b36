"""pgq._dumped_by: the sessions of pg_dump in this database."""

from support import value


def test_sessions_of_pg_dump_in_this_database_are_found(database, connection):
    assert value(connection, "select pgq._dumped_by()") is None
    with (
        database.connect(application_name="pg_dump") as one,
        database.connect(application_name="pg_dump") as two,
        database.connect(application_name="psql"),
    ):
        pids = sorted(session.info.backend_pid for session in (one, two))
        assert value(connection, "select pgq._dumped_by()") == pids
        # Its own session is not included.
        assert value(one, "select pgq._dumped_by()") == [two.info.backend_pid]


def test_sessions_are_looked_for_anew_within_a_transaction(database, connection):
    with connection.transaction():
        assert value(connection, "select pgq._dumped_by()") is None
        with database.connect(application_name="pg_dump") as dump:
            assert value(connection, "select pgq._dumped_by()") == [dump.info.backend_pid]


def test_sessions_are_found_without_rights_on_them(database, connection, role):
    connection.execute(f"grant sluice_admin to {role}")
    with (
        database.connect(application_name="pg_dump") as dump,
        database.connect(user=role) as session,
    ):
        assert value(session, "select pgq._dumped_by()") == [dump.info.backend_pid]
