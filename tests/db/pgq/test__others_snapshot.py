"""pgq._others_snapshot: the current snapshot, with the own transaction as running."""

from __future__ import annotations

from support import value

OTHERS = "select pgq._others_snapshot()::text"
IS_VISIBLE = "select pg_visible_in_snapshot(%s::text::xid8, %s::pg_snapshot)"


def own_id(session) -> str:
    return value(session, "select pg_current_xact_id()::text")


def test_without_an_id_it_is_the_current_snapshot(connection):
    connection.execute("set default_transaction_isolation = 'repeatable read'")  # one snapshot
    with connection.transaction():
        assert value(connection, OTHERS) == value(connection, "select pg_current_snapshot()::text")


def test_the_own_transaction_runs(connection):
    with connection.transaction():
        own = own_id(connection)
        # The own transaction counts as running although its own snapshot may not list it.
        assert value(connection, IS_VISIBLE, own, value(connection, OTHERS)) is False


def test_it_runs_concurrently_with_older_and_newer_transactions(database, connection):
    with database.connect(autocommit=False) as before, database.connect(autocommit=False) as after:
        ids = [own_id(before)]
        with connection.transaction():
            ids.append(own_id(connection))
            ids.append(own_id(after))
            with database.connect() as ended:
                done = own_id(ended)
            snapshot = value(connection, OTHERS)

            assert snapshot == f"{ids[0]}:{int(done) + 1}:{','.join(ids)}"
            assert value(connection, IS_VISIBLE, done, snapshot) is True
            plain = value(connection, "select pg_current_snapshot()::text")
            assert value(connection, IS_VISIBLE, ids[1], plain) is True
        before.rollback()
        after.rollback()


def test_it_is_the_oldest_if_no_other_runs(database, connection):
    with connection.transaction():
        own = own_id(connection)
        with database.connect() as ended:
            done = own_id(ended)

        # Other databases of the server may have transactions in progress, such as an autovacuum.
        xmin, xmax, running = value(connection, OTHERS).split(":")
        assert (xmin, int(xmax) > int(done)) == (own, True)
        assert own in running.split(",")
        assert done not in running.split(",")


def test_a_savepoint_has_no_id_of_its_own_in_it(database, connection):
    with connection.transaction():
        own = own_id(connection)
        with connection.transaction():
            connection.execute("create temporary table t (n integer) on commit drop")
            with database.connect() as ended:
                own_id(ended)
            assert value(connection, OTHERS).split(":")[2] == own
