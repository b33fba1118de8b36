from support import rows, value

KEYS = "select key from sluice.inbox order by key"


def fill(connection):
    """Add five expired keys, the oldest last, and one that has not expired."""
    connection.execute("select sluice.once('mailer', n::text) from generate_series(1, 5) as n")
    connection.execute("select sluice.once('mailer', 'holds')")
    connection.execute(
        "update sluice.inbox set expires_at = now() - key::int * interval '1 min' where key <> 'holds'"
    )


def test_keys_whose_time_is_over_are_removed_oldest_first_in_bounded_steps(connection):
    fill(connection)

    (step,) = rows(connection, "select * from sluice._maintain_inbox(3)")
    assert step == ("inbox", None, True, "3 expired keys removed; the next call goes on")
    assert rows(connection, KEYS) == [("1",), ("2",), ("holds",)]
    (step,) = rows(connection, "select * from sluice.maintain()")
    assert step == ("inbox", None, True, "2 expired keys removed")
    assert rows(connection, "select * from sluice.maintain()") == []
    assert rows(connection, KEYS) == [("holds",)]


def test_two_at_once_share_the_work_and_leave_alone_what_is_done_anew(database, connection):
    fill(connection)
    with (
        database.connect(autocommit=False) as first,
        database.connect(autocommit=False) as handler,
        database.connect() as second,
    ):
        second.execute("set lock_timeout = '100ms'")
        assert value(handler, "select sluice.once('mailer', '1')") is True
        assert value(first, "select detail from sluice._maintain_inbox(3)").startswith("3 expired")

        (step,) = rows(second, "select detail from sluice._maintain_inbox()")
        assert step == ("1 expired keys removed",)
        first.commit()
        handler.commit()

    assert rows(connection, KEYS) == [("1",), ("holds",)]


def test_few_among_many_are_found_by_index(connection):
    fill(connection)
    connection.execute(
        "insert into sluice.inbox select 'mailer', 'n' || n, now() + interval '1 h' "
        "from generate_series(1, 50000) as n"
    )
    connection.execute("analyze sluice.inbox")
    scans = "select seq_scan from pg_stat_user_tables where relid = 'sluice.inbox'::regclass"
    connection.execute("select pg_stat_force_next_flush()")
    before = value(connection, scans)

    assert (
        value(connection, "select detail from sluice._maintain_inbox()") == "5 expired keys removed"
    )

    connection.execute("select pg_stat_force_next_flush()")
    assert value(connection, scans) == before
