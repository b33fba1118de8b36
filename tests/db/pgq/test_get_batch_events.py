import psycopg
import pytest

from support import replace_in, rows, value
from support.log import consume_all, error_of, finish, tick

FUNCTION = "pgq.get_batch_events(bigint)"


def test_the_columns_are_those_of_pgq(connection, consumer):
    connection.execute("select pgq.insert_event('changes', 't', 'd', '1', '2', '3', '4')")
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    cursor = connection.execute("select * from pgq.get_batch_events(x_batch_id => %s)", (batch,))

    assert [(c.name, c.type_display) for c in cursor.description] == [
        ("ev_id", "int8"), ("ev_time", "timestamptz"), ("ev_txid", "int8"), ("ev_retry", "int4"), ("ev_type", "text"),
        ("ev_data", "text"), ("ev_extra1", "text"), ("ev_extra2", "text"), ("ev_extra3", "text"), ("ev_extra4", "text"),
    ]  # fmt: skip
    (row,) = cursor.fetchall()
    assert (row[0], *row[3:]) == (1, None, "t", "d", "1", "2", "3", "4")


def test_events_come_by_id_and_the_same_each_time_until_the_batch_is_finished(connection, consumer):
    connection.execute(
        "select pgq.insert_event('changes', 't', n::text) from generate_series(1, 100) as n"
    )
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    query = "select ev_id, ev_data from pgq.get_batch_events(%s)"

    first = rows(connection, query, batch)
    connection.execute("select pgq.insert_event('changes', 't', 'later')")
    tick(connection)

    assert first == [(n, str(n)) for n in range(1, 101)]
    assert rows(connection, query, batch) == first


def test_a_commit_that_came_late_is_in_the_batch_after_it_and_in_no_other(
    database, connection, consumer
):
    with database.connect(autocommit=False) as late:
        late.execute("select pgq.insert_event('changes', 't', 'late')")
        connection.execute("select pgq.insert_event('changes', 't', 'early')")
        tick(connection)
        tick(connection)
        assert consume_all(connection) == [[2], []]
        late.commit()
        tick(connection)

    assert consume_all(connection) == [[1]]


def test_rolled_back_event_is_in_no_batch(connection, consumer):
    with connection.transaction():
        connection.execute("select pgq.insert_event('changes', 't', 'kept')")
        with connection.transaction(force_rollback=True):
            connection.execute("select pgq.insert_event('changes', 't', 'savepoint rolled back')")
    with connection.transaction(force_rollback=True):
        connection.execute("select pgq.insert_event('changes', 't', 'rolled back')")
    tick(connection)

    assert consume_all(connection) == [[1]]


def test_event_with_an_owner_is_delivered_to_its_subscription_only(connection, consumer):
    connection.execute("select pgq.register_consumer('changes', 'other')")
    owner = value(
        connection,
        "select sub_id from pgq.subscription as s join pgq.consumer as c on c.co_id = s.sub_consumer where co_name = 'lake'",
    )
    connection.execute(
        "select pgq.insert_event_raw('changes', null, null, %s, 1, 't', 'again', null, null, null, null)",
        (owner,),
    )
    tick(connection)

    assert consume_all(connection, consumer="lake") == [[1]]
    assert consume_all(connection, consumer="other") == [[]]


def test_a_batch_that_is_not_open_is_an_error(connection, consumer):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from pgq.get_batch_events(4711)")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ003",
        "batch not found",
    )


def test_many_consumers_and_moves_do_not_make_a_batch_harder_to_find(connection, consumer):
    """The ledgers hold a row for each move of each consumer."""
    connection.execute(
        "select pgq.register_consumer('changes', 'c' || n) from generate_series(1, 300) as n"
    )
    for _ in range(3):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)
        connection.execute(
            """select pgq.finish_batch(pgq.next_batch('changes', 'c' || n))
            from generate_series(1, 300) as n"""
        )
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    (plan,) = rows(
        connection,
        "explain (analyze, buffers, format json) select * from pgq.open_batch where batch_id = %s",
        batch,
    )

    assert plan[0][0]["Plan"]["Actual Rows"] == 1
    assert plan[0][0]["Plan"]["Shared Hit Blocks"] < 30, plan


def events_of(connection, batch):
    """Return the events of a batch; None if it is not open."""
    try:
        return rows(connection, "select * from pgq.get_batch_events(%s)", batch)
    except psycopg.Error as error:
        if error.sqlstate != "PQ003":
            raise
        return None


def check_batches_in_both_ledgers(connection):
    """A batch is open until it is finished, in both ledgers, and is what pgq.batch_event_sql finds."""
    batches = []
    for number in range(1, 5):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)
        batch = value(connection, "select pgq.next_batch('changes', 'lake')")
        batches.append(batch)
        expected = rows(connection, value(connection, "select pgq.batch_event_sql(%s)", batch))

        assert [row[0] for row in expected] == [number]
        assert events_of(connection, batch) == expected
        if number == 2:  # with the open batch to the second ledger, where the next ones are
            assert value(connection, "select pgq._maintain_positions(1)") == 1
            assert events_of(connection, batch) == expected
        finish(connection, batch)
        for ended in batches:
            assert events_of(connection, ended) is None
            assert error_of(connection, "select pgq.batch_event_sql(%s)", ended)[0] == "PQ003"


def test_batches_are_found_in_both_ledgers(connection, consumer):
    check_batches_in_both_ledgers(connection)


def check_few_moves_are_read(connection, query):
    tick(connection)
    connection.execute(
        """insert into pgq.position_0
        select p.pos_subscriber, p.pos_move + n, p.pos_active, p.pos_last_tick, p.pos_last_time, p.pos_last_seq,
            p.pos_last_snapshot, case when n % 2 = 1 then nextval('pgq.batch_id_seq') end
        from pgq.position_0 as p, generate_series(1, 20000) as n"""
    )
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    connection.execute("set plan_cache_mode = force_generic_plan")

    read = "select pg_stat_get_xact_tuples_returned('pgq.position_0_pkey'::regclass)"

    with connection.transaction():
        before = value(connection, read)
        connection.execute(query, (batch,))
        after = value(connection, read)

    assert after - before < 10


EVENTS = "select * from pgq.get_batch_events(%s)"
QUERY = "select pgq.batch_event_sql(%s)"


@pytest.mark.parametrize("query", [EVENTS, QUERY])
def test_earlier_moves_of_the_consumer_are_not_read(connection, consumer, query):
    """The ledger has two rows for each batch that the consumer has finished."""
    check_few_moves_are_read(connection, query)


def test_a_view_that_reads_all_moves_is_found(connection, consumer):
    view = value(connection, "select pg_get_viewdef('pgq.open_batch'::regclass)")
    assert view.count("(p.pos_subscriber + 0)") == 2
    connection.execute("create or replace view pgq.open_batch as " + view.replace(" + 0)", ")"))

    with pytest.raises(AssertionError):
        check_few_moves_are_read(connection, QUERY)


NEWEST = "from pgq.position_{0} as m where m.pos_subscriber = s.sub_key order by m.pos_move desc"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "and s.sub_ledger = 0\n      and p.pos_batch = x_batch_id",
            "and s.sub_ledger = 0",
            id="another batch is read",
        ),
        pytest.param(
            "and s.sub_ledger = 1\n          and p.pos_batch = x_batch_id",
            "and s.sub_ledger = 1",
            id="another batch of the second ledger is read",
        ),
        pytest.param(
            "and s.sub_ledger = 0", "", id="the ledger that the consumer has left is read"
        ),
        pytest.param(
            "and s.sub_ledger = 1", "and s.sub_ledger = 0", id="the second ledger is not read"
        ),
        pytest.param(
            NEWEST.format(0), NEWEST.format(0).replace(" desc", ""), id="the oldest move is read"
        ),
        pytest.param(
            NEWEST.format(1),
            NEWEST.format(1).replace(" desc", ""),
            id="the oldest move of the second ledger is read",
        ),
    ],
)
def test_a_planted_bug_is_found(connection, consumer, old, new):
    replace_in(connection, FUNCTION, old, new)

    with pytest.raises(AssertionError):
        check_batches_in_both_ledgers(connection)


def test_a_lookup_that_reads_all_moves_is_found(connection, consumer):
    replace_in(connection, FUNCTION, NEWEST.format(0), NEWEST.format(0).replace("move", "move + 0"))

    with pytest.raises(AssertionError):
        check_few_moves_are_read(connection, EVENTS)


def check_batches_about_the_limit(database, connection):
    """Batches of few events come from a function of the log, others from a query: the same events."""
    replace_in(connection, FUNCTION, "v_few constant integer := 500", "v_few constant integer := 5")
    sizes = []
    for events in (0, 1, 4, 5, 6, 7):
        for is_late in (False, True):
            with database.connect(autocommit=False) as sender:
                for _ in range(events):
                    sender.execute("select pgq.insert_event('changes', 't', 'd')")
                if is_late:
                    tick(connection)
                sender.commit()
            tick(connection)
            while (
                batch := value(connection, "select pgq.next_batch('changes', 'lake')")
            ) is not None:
                expected = rows(
                    connection, value(connection, "select pgq.batch_event_sql(%s)", batch)
                )
                assert events_of(connection, batch) == expected
                sizes.append(len(expected))
                finish(connection, batch)
    assert [size for size in sizes if size] == [1, 1, 4, 4, 5, 5, 6, 6, 7, 7]


def test_batches_of_few_and_of_many_events_are_whole(database, connection, consumer):
    check_batches_about_the_limit(database, connection)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("v_few + 1", "v_few", id="a late transaction's events are cut"),
        pytest.param(
            "select not pgq", "select true or not pgq", id="late events are not looked for"
        ),
        pytest.param(
            "using v_after, v_upto, v_owner",
            "using v_upto, v_upto, v_owner",
            id="begins at its end",
        ),
    ],
)
def test_a_planted_bug_in_small_batches_is_found(database, connection, consumer, old, new):
    replace_in(connection, FUNCTION, old, new)

    with pytest.raises(AssertionError):
        check_batches_about_the_limit(database, connection)
