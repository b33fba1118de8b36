import threading

from support import rows, value, wait_for_lock

POSITION = "select version, detail from sluice.sink_position('copier')"


def test_it_is_the_newest_version_and_what_was_noted_with_it(connection):
    assert rows(connection, POSITION) == []

    connection.execute("select sluice.sink_commit('copier', 0), sluice.sink_commit('another', 5)")
    assert rows(connection, POSITION) == [(0, None)]

    connection.execute(
        """select sluice.sink_commit('copier', 3, '{"file": "a"}'), sluice.sink_commit('copier', 2, '1')"""
    )
    assert rows(connection, POSITION) == [(3, {"file": "a"})]


def test_of_two_writers_of_one_sink_the_second_goes_on_where_the_first_ended(database, connection):
    found = []
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert rows(first, POSITION) == []
        thread = threading.Thread(target=lambda: found.extend(rows(second, POSITION)))
        thread.start()
        wait_for_lock(connection, second)
        value(first, "select sluice.sink_commit('copier', 4)")
        first.commit()
        thread.join(10)

    assert found == [(4, None)]
