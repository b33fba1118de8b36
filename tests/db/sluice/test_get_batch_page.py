import psycopg
import pytest

from support import replace_in, rows, value
from support.log import open_batch

OWNER = "select sub_id from pgq.subscription join pgq.consumer on co_id = sub_consumer and co_name = 'lake'"

PAGE = "sluice.get_batch_page(bigint,bigint,integer)"
NEXT = "pgq.event_1_next(pg_snapshot,bigint,pg_snapshot,bigint,bigint,integer,integer)"
OUTSIDE = "pgq.event_1_outside(pg_snapshot,pg_snapshot,bigint,bigint,integer,integer)"


RANGES = "pgq._batch_page(integer,integer,pg_snapshot,pg_snapshot,bigint,integer)"


@pytest.fixture(params=["without", "with_index", "large"])
def consumer(request, connection):
    """A consumer of a log without share groups, or with one, which gives its events an index by number.

    Or without share groups, where each batch counts as a large one.
    """
    connection.execute("select pgq.create_queue('changes')")
    if request.param == "with_index":
        connection.execute("select sluice.create_group('changes', 'group')")
    if request.param == "large":
        replace_in(connection, PAGE, "> 20000", "> -1000")
        replace_in(connection, RANGES, "integer := 64", "integer := 1")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    return request.param


def pages(connection, batch, qty):
    found, after = [], None
    while page := rows(
        connection, "select * from sluice.get_batch_page(%s, %s, %s)", batch, after, qty
    ):
        found.append(page)
        after = page[-1][0]
    return found


@pytest.mark.parametrize("qty", [1, 3, 10, 100])
def test_the_pages_together_are_the_batch(connection, consumer, qty):
    batch = open_batch(connection, 10)

    found = pages(connection, batch, qty)

    assert all(len(page) == qty for page in found[:-1])
    assert [event for page in found for event in page] == rows(
        connection, "select * from pgq.get_batch_events(%s)", batch
    )


def check_events_with_the_same_id(connection):
    """An event and its retry have the same id if the consumer has moved back."""
    owner = value(connection, OWNER)
    connection.execute(
        "select pgq.insert_event_raw('changes', 2, null, %s, 1, 't', 'again', null, null, null, null)",
        (owner,),
    )
    connection.execute("select setval('pgq.event_1_id_seq', 1, false)")
    batch = open_batch(connection, 4)

    found = pages(connection, batch, 2)

    assert [[row[0] for row in page] for page in found] == [[1, 2, 2], [3, 4]]


def check_late_retried_and_other_events(database, connection, consumer):
    owner = value(connection, OWNER)
    raw = "select pgq.insert_event_raw('changes', %s, null, %s, 1, 't', %s, null, null, null, null)"
    insert = "select pgq.insert_event('changes', 't', %s)"
    with (
        database.connect(autocommit=False) as late,
        database.connect(autocommit=False) as later,
        database.connect(autocommit=False) as later_still,
    ):
        late.execute(insert, ("late",))
        later.execute(insert, ("after the batch",))
        connection.execute(raw, (12, None, "before the batch"))
        if consumer == "large":  # the block of the late event has none of the others
            connection.execute(
                """select pgq.insert_event_raw('changes', 5000 + n, null, null, 1, 't', 'before', null, null, null, null)
                   from generate_series(1, 200) as n"""
            )
        open_batch(connection, 5)
        connection.execute("select pgq.finish_batch(%s)", (1,))
        late.commit()
        later_still.execute(insert, ("after the batch",))
        for ev_id, owner_id, data in (
            (2, owner, "mine"),
            (3, owner + 100, "another's"),
            (14, owner + 100, "another's"),
            (999, None, "far"),
        ):
            connection.execute(raw, (ev_id, owner_id, data))
        batch = open_batch(connection, 5)
        later.commit()
        later_still.commit()
        connection.execute(insert, ("after the batch",))

    for qty in (1, 2, 100):
        assert [event for page in pages(connection, batch, qty) for event in page] == rows(
            connection, "select * from pgq.get_batch_events(%s)", batch
        )
    found = [row[5] for page in pages(connection, batch, 100) for row in page]
    assert sorted(found) == ["1", "2", "3", "4", "5", "far", "late", "mine"]


def test_events_with_the_same_id_come_on_one_page(connection, consumer):
    check_events_with_the_same_id(connection)


def test_late_retried_and_other_events_of_a_batch_are_on_its_pages(database, connection, consumer):
    check_late_retried_and_other_events(database, connection, consumer)


# With an index or not → the function, parts of its source, and the bugs that replace them.
SAME_ID = {
    "without": (
        PAGE,
        ("and event.ev_id <= $2 order by event.ev_id", "order by event.ev_id limit $2"),
        ("using v_after, v_upto;", "using v_after, qty;"),
    ),
    "with_index": (
        NEXT,
        ("i_upto_seq - i_after_seq <= 100", "false"),  # a short batch is looked up by transaction
        ("- cardinality(v_events)) rows with ties", "- cardinality(v_events)) rows only"),
    ),
    "large": (RANGES, ("rows with ties", "rows only")),
}


def test_a_page_that_ends_between_equal_ids_is_found(connection, consumer):
    function, *changes = SAME_ID[consumer]
    for old, new in changes:
        replace_in(connection, function, old, new)

    with pytest.raises(AssertionError):
        check_events_with_the_same_id(connection)


OWN = "and (e.ev_owner is null or e.ev_owner = i_owner)"
BATCH = "pgq._batch_sql(integer,integer,pg_snapshot,pg_snapshot,text[],bigint)"
BETWEEN = "pgq._events_between_sql(integer,pg_snapshot,pg_snapshot,integer,integer)"
LATE = "where pg_visible_in_snapshot(late.txid, i_upto)"
# Bug → function, a part of its source, and the bug that replaces it.
PLANTED = {
    "late commits are skipped": (BETWEEN, "if i_slice = 1", "if false"),
    "open transactions are read": (BETWEEN, "open.txid >= pg_snapshot_xmax(i_after)", "false"),
    "events of other owners are read": (BATCH, "event.ev_owner is null or", "true or"),
}
PLANTED_WITH_INDEX = {
    "late commits are skipped": (OUTSIDE, LATE, "where false"),
    "late transactions are read while they are open": (OUTSIDE, LATE, "where true"),
    "open transactions are read": (NEXT, "and pg_visible_in_snapshot(e.ev_txid, i_upto)", ""),
    "the batch before is read": (NEXT, "and not pg_visible_in_snapshot(e.ev_txid, i_after)", ""),
    "events of other owners are read": (
        NEXT,
        f"{OWN}\n            order by e.ev_id\n            fetch",
        "order by e.ev_id fetch",
    ),
    "events of other owners are read by transaction": (
        OUTSIDE,
        f"{OWN}\n            union",
        "union",
    ),
    "numbers before the batch are skipped": (
        NEXT,
        "if i_after_ev_id is null or i_after_ev_id < i_after_seq and v_from > i_after_ev_id then",
        "if false then",
    ),
    "numbers behind the batch are skipped": (
        NEXT,
        "if cardinality(v_events) < i_qty and i_after_ev_id is distinct from 9223372036854775807",
        "if false",
    ),
}
PLANTED_LARGE = {
    "late commits are skipped": (BETWEEN, "if i_slice = 1", "if false"),
    "open transactions are read": (
        RANGES,
        "and pg_visible_in_snapshot(event.ev_txid, $4)",
        "and $4 is not null",
    ),
    "the batch before is read": (
        RANGES,
        "and not pg_visible_in_snapshot(event.ev_txid, $5)",
        "and $5 is not null",
    ),
    "events of other owners are read": (
        RANGES,
        "and (event.ev_owner is null or event.ev_owner = $3)\n           and",
        "and ($3 is not null) and",
    ),
}


def check_planted(database, connection, consumer, function, old, new):
    replace_in(connection, function, old, new)

    with pytest.raises(AssertionError):
        check_late_retried_and_other_events(database, connection, consumer)


@pytest.mark.parametrize("consumer", ["without"], indirect=True)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_without_an_index(database, connection, consumer, bug):
    check_planted(database, connection, consumer, *PLANTED[bug])


@pytest.mark.parametrize("consumer", ["with_index"], indirect=True)
@pytest.mark.parametrize("bug", PLANTED_WITH_INDEX)
def test_a_planted_bug_is_found_with_an_index(database, connection, consumer, bug):
    check_planted(database, connection, consumer, *PLANTED_WITH_INDEX[bug])


@pytest.mark.parametrize("consumer", ["large"], indirect=True)
@pytest.mark.parametrize("bug", PLANTED_LARGE)
def test_a_planted_bug_is_found_in_a_large_batch(database, connection, consumer, bug):
    check_planted(database, connection, consumer, *PLANTED_LARGE[bug])


def check_many_blocks(connection):
    """Transactions whose numbers overlap, in the blocks of two tables, some of them inserted in another order."""
    for n in range(6):
        connection.execute(
            f"""insert into pgq.event_1_{n % 2} (ev_id, ev_type, ev_data)
                select (i * 7919 + {n}) %% 4001 + {n} * 2000, 't', repeat('x', %s)
                from generate_series(1, 400) as i""",
            (n * 30,),
        )
    batch = open_batch(connection, 500)
    everything = rows(connection, "select * from pgq.get_batch_events(%s)", batch)
    for qty in (1_000, 97):
        found = pages(connection, batch, qty)
        # Events with the same number have no order.
        assert [row[0] for page in found for row in page] == [row[0] for row in everything]
        assert sorted(row for page in found for row in page) == sorted(everything)
        assert all(len(page) >= qty for page in found[:-1])
        assert all(len(page) == qty or page[-1][0] == page[qty - 1][0] for page in found[:-1])
    return batch, everything


def test_pages_of_a_batch_in_many_blocks_are_the_batch(connection, consumer):
    check_many_blocks(connection)


@pytest.mark.parametrize("consumer", ["large"], indirect=True)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("or v_upto is null", "and v_upto is not null"),
        ("filter (where r.lowest > v_after)", ""),
        ("and (r.lowest <= v_upto", "and (r.highest <= v_upto"),
    ],
)
def test_a_bug_in_the_choice_of_blocks_is_found(connection, consumer, old, new):
    replace_in(connection, RANGES, old, new)

    with pytest.raises(AssertionError):
        check_many_blocks(connection)


@pytest.mark.parametrize("consumer", ["large"], indirect=True)
def test_pages_continue_after_a_rewrite_of_the_events(connection, consumer):
    batch, everything = check_many_blocks(connection)

    connection.execute("create index by_data on pgq.event_1_0 (length(ev_data), (ev_id % 7))")
    connection.execute("cluster pgq.event_1_0 using by_data")

    found = [row for page in pages(connection, batch, 97) for row in page]
    assert sorted(found) == sorted(everything)


@pytest.mark.parametrize("consumer", ["large"], indirect=True)
def test_a_session_reads_the_pages_of_two_batches_alternately(connection, consumer):
    connection.execute("select pgq.register_consumer('changes', 'other')")
    first = open_batch(connection, 20)
    second = open_batch(connection, 20, consumer="other")

    for after in range(0, 20, 5):
        for batch, offset in ((first, 0), (second, 0)):
            page = rows(
                connection,
                "select ev_id from sluice.get_batch_page(%s, %s, 5)",
                batch,
                after + offset,
            )
            assert page == [(n,) for n in range(after + 1, after + 6)]


@pytest.mark.parametrize("consumer", ["large"], indirect=True)
def test_a_page_after_a_rolled_back_first_page_has_its_events(connection, consumer):
    batch = open_batch(connection, 10)
    with connection.transaction(force_rollback=True):
        assert len(pages(connection, batch, 5)) == 2

    assert [len(page) for page in pages(connection, batch, 5)] == [5, 5]


@pytest.mark.parametrize("consumer", ["large"], indirect=True)
def test_later_pages_of_a_large_batch_do_not_read_it_again(connection, consumer):
    batch = open_batch(connection, 3_000)
    reads = """select sum(pg_stat_get_xact_tuples_fetched(c.oid) + pg_stat_get_xact_tuples_returned(c.oid))
               from pg_class as c where c.relname like 'event_1_%%'"""
    page = "select * from sluice.get_batch_page(%s, 1000, 10)"
    assert len(rows(connection, page, batch)) == 10
    with connection.transaction():
        before = value(connection, reads)
        assert len(rows(connection, page, batch)) == 10
        assert value(connection, reads) - before < 600


@pytest.mark.parametrize("consumer", ["with_index"], indirect=True)
def test_page_of_a_log_with_an_index_does_not_read_the_batch(connection, consumer):
    batch = open_batch(connection, 3_000)

    def read(after):
        """Return the rows that a page reads from the events and their indexes."""
        reads = """select coalesce(sum(pg_stat_get_xact_tuples_fetched(c.oid) + pg_stat_get_xact_tuples_returned(c.oid)), 0)
                   from pg_class as c where c.relname like 'event_1_%%'"""
        with connection.transaction():
            before = value(connection, reads)
            assert (
                len(
                    rows(
                        connection, "select * from sluice.get_batch_page(%s, %s, 10)", batch, after
                    )
                )
                == 10
            )
            return value(connection, reads) - before

    assert read(1_000) < 100


def test_a_batch_without_events_has_no_page(connection, consumer):
    assert pages(connection, open_batch(connection, 0), 5) == []


@pytest.mark.parametrize("qty", ["0", "-1", "null"])
def test_a_page_has_a_size(connection, consumer, qty):
    batch = open_batch(connection)

    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select * from sluice.get_batch_page(%s, null, {qty})", (batch,))

    assert caught.value.sqlstate == "22023"


def test_a_batch_that_is_not_open_is_an_error(connection, consumer):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from sluice.get_batch_page(4711, null, 5)")

    assert caught.value.sqlstate == "PQ003"
