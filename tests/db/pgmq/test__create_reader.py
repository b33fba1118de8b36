"""Readers: ready messages and due messages in msg_id order, and the cost of a read."""

import pytest

from pgsluice import schema
from support import rows, value, wait_until


def ids(connection, call):
    return [row[0] for row in rows(connection, f"select * from {call}")]


@pytest.fixture
def six(connection, queue):
    connection.execute(
        "select pgmq.send_batch('orders', array['1', '2', '3', '4', '5', '6']::jsonb[])"
    )


def entries_read(connection, index):
    """Return the number of index entries read so far, including dead ones."""
    connection.execute("select pg_stat_force_next_flush()")
    return value(
        connection,
        f"select idx_tup_read from pg_stat_user_indexes where indexrelname = '{index}'",
    )


def rows_scanned(connection):
    """Return the number of rows of the queue read without an index."""
    connection.execute("select pg_stat_force_next_flush()")
    return value(
        connection, "select seq_tup_read from pg_stat_user_tables where relname = 'q_orders'"
    )


def test_a_message_sent_without_delay_is_ready_and_one_with_delay_is_deferred(connection, queue):
    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    connection.execute("select pgmq.send('orders', '2'::jsonb, 0)")
    connection.execute("select pgmq.send('orders', '3'::jsonb, 60)")
    connection.execute("select pgmq.send_batch('orders', array['4']::jsonb[])")

    assert rows(connection, "select msg_id, vt <= enqueued_at from pgmq.q_orders order by 1") == [
        (1, True),
        (2, True),
        (3, False),
        (4, True),
    ]


def test_due_messages_come_among_the_ready_ones_by_id(connection, six):
    connection.execute("select pgmq.set_vt('orders', array[2, 5], 0)")

    assert ids(connection, "pgmq.read('orders', 30, 1)") == [1]
    assert ids(connection, "pgmq.read('orders', 30, 3)") == [2, 3, 4]
    assert ids(connection, "pgmq.pop('orders', 9)") == [5, 6]


def test_expired_claim_is_read_before_later_messages(connection, six):
    connection.execute("select pgmq.read('orders', 0, 3)")

    assert ids(connection, "pgmq.read('orders', 30, 4)") == [1, 2, 3, 4]


def test_a_condition_holds_for_due_messages_too(connection, six):
    connection.execute("select pgmq.set_vt('orders', array[2, 5], 0)")

    assert ids(connection, "pgmq.read('orders', 30, 9, '5')") == [5]
    assert ids(connection, "pgmq.read('orders', 30, 9, '3')") == [3]


def test_more_than_a_thousand_due_messages_are_all_delivered_once(connection, queue):
    connection.execute(
        "insert into pgmq.q_orders (vt, enqueued_at, message) select now() - n * interval '1 ms', now() - interval '1 h', '1' from generate_series(1, 3500) as n"
    )

    delivered = []
    while batch := ids(connection, "pgmq.read('orders', 30, 700)"):
        assert batch == sorted(batch)
        delivered += batch

    assert sorted(delivered) == list(range(1, 3501))


def test_two_readers_share_due_messages_without_waiting(database, connection, six):
    connection.execute("select pgmq.set_vt('orders', array[1, 2, 3], 0)")
    with database.connect(autocommit=False) as first, database.connect() as second:
        second.execute("set lock_timeout = '100ms'")
        assert ids(first, "pgmq.read('orders', 30, 2)") == [1, 2]
        # The first also keeps its locks on the ready messages that it examined, until it commits.
        assert ids(second, "pgmq.read('orders', 30, 9)") == [3, 6]
        first.commit()
        assert ids(second, "pgmq.read('orders', 30, 9)") == [4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("invisible", [0, 100_000])
@pytest.mark.parametrize("call", ["pgmq.read('orders', 30, 1)", "pgmq.pop('orders')"])
def test_read_visits_only_the_rows_it_returns(connection, queue, invisible, call):
    connection.execute(
        "insert into pgmq.q_orders (vt, message) select now() + interval '1 day', '1' from generate_series(1, %s)",
        (invisible,),
    )
    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[100]))")
    connection.execute("analyze pgmq.q_orders")
    before = {
        index: entries_read(connection, index)
        for index in ("q_orders_ready_idx", "q_orders_vt_idx", "q_orders_pkey")
    }
    scanned = rows_scanned(connection)

    for number in range(1, 11):
        assert ids(connection, call) == [invisible + number]

    read = {index: entries_read(connection, index) - before[index] for index in before}
    # Each call visits the dead entries of the calls before it, ten at most.
    assert 10 <= read["q_orders_ready_idx"] <= 10 * 11, read
    assert read["q_orders_vt_idx"] == 0, read
    assert 10 <= read["q_orders_pkey"] <= 3 * 10, read
    assert rows_scanned(connection) == scanned


@pytest.mark.parametrize("messages", [0, 100_000])
def test_its_plans_use_the_indexes_at_any_size(database, connection, queue, messages, server):
    if server.version != 15:
        pytest.skip(
            "auto_explain, which shows plans of statements in functions, is with Debian's server only"
        )
    connection.execute(
        "insert into pgmq.q_orders (vt, message) select now(), '1' from generate_series(1, %s)",
        (messages,),
    )
    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    plans = []
    connection.add_notice_handler(lambda notice: plans.append(notice.message_primary))
    connection.execute("load 'auto_explain'")
    connection.execute("set auto_explain.log_min_duration = 0")
    connection.execute("set auto_explain.log_nested_statements = on")
    connection.execute("set client_min_messages = log")

    connection.execute("select * from pgmq.read('orders', 30, 2)")
    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    connection.execute("select * from pgmq.read('orders', 30, 2)")
    connection.execute("select * from pgmq.pop('orders', 2)")

    connection.execute("set client_min_messages = notice")
    text = "\n".join(plans)
    assert "Scan using q_orders_ready_idx" in text, text
    assert "Scan using q_orders_vt_idx" in text, text
    assert "using q_orders_pkey" in text, text
    assert "Seq Scan" not in text, text
    assert "Bitmap" not in text, text


def test_due_messages_are_found_by_their_index(connection, queue):
    connection.execute(
        "insert into pgmq.q_orders (vt, enqueued_at, message) select now(), now() - interval '1 s', '1' from generate_series(1, 5000)"
    )
    connection.execute("analyze pgmq.q_orders")
    scanned = rows_scanned(connection)
    before = entries_read(connection, "q_orders_vt_idx")

    assert len(ids(connection, "pgmq.read('orders', 30, 1)")) == 1

    # One for the first due message, and the 1,000 that are sorted.
    assert 1 <= entries_read(connection, "q_orders_vt_idx") - before <= 1_002
    assert rows_scanned(connection) == scanned


def test_an_empty_poll_reads_nothing(connection, queue):
    connection.execute(
        "insert into pgmq.q_orders (vt, message) select now() + interval '1 day', '1' from generate_series(1, 50000)"
    )
    before = entries_read(connection, "q_orders_vt_idx")

    assert ids(connection, "pgmq.read('orders', 30, 10)") == []

    assert entries_read(connection, "q_orders_vt_idx") - before <= 1
    assert rows_scanned(connection) == 0


DEAD = 300_000
SETTING = "'sluice.head_' || md5('q_orders ' || 'pgmq.q_orders'::regclass::oid)"


def head(connection):
    """Return the session's remembered start of reads, or an empty string."""
    return value(
        connection,
        """select coalesce(current_setting(format(
               'sluice.head_%s', md5(format('%s %s', 'q_orders', 'pgmq.q_orders'::regclass::oid))
           ), true), '')""",
    )


@pytest.fixture
def held(database, connection, queue):
    """A queue with 300,000 deleted messages, and a snapshot that retains their index entries."""
    connection.execute(
        "select count(*) from pgmq.send_batch('orders', array_fill('1'::jsonb, array[%s]))", [DEAD]
    )
    with database.connect(autocommit=False) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select from pgmq.meta")
        connection.execute("delete from pgmq.q_orders")
        yield holder
        holder.rollback()


def send(connection, count=1):
    return ids(
        connection,
        f"pgmq.send_batch('orders', array_fill('1'::jsonb, array[{count}]))",
    )


@pytest.mark.slow
def test_read_with_a_held_snapshot_starts_at_the_head(connection, held):
    first, second, *others = send(connection, 50)
    # The first read is slow, so it counts the blocks of the indexes, and stores the head.
    assert ids(connection, "pgmq.read('orders', 30, 1)") == [first]
    assert head(connection).count(" ") == 2
    assert ids(connection, "pgmq.read('orders', 30, 1)") == [second]
    before = entries_read(connection, "q_orders_ready_idx")

    assert head(connection).count(" ") == 2
    for msg_id in others[:10]:
        assert ids(connection, "pgmq.read('orders', 30, 1)") == [msg_id]

    # Without a head each of the ten reads visits 300,000 dead entries; with it, 1,000.
    assert entries_read(connection, "q_orders_ready_idx") - before < DEAD


@pytest.mark.slow
def test_the_head_hides_what_commits_late_until_it_expires(database, connection, held):
    with database.connect(autocommit=False) as late:
        (late_id,) = send(late)
        send(connection, 3_000)
        # These reads move the head past the uncommitted message.
        while ids(connection, "pgmq.pop('orders', 100)"):
            pass
        late.commit()

    found: list[int] = []
    wait_until(
        lambda: bool(found.extend(ids(connection, "pgmq.read('orders', 30, 1)")) or found),
        "the message with the late commit",
        deadline_s=15,
    )
    assert found == [late_id]


@pytest.mark.slow
def test_vt_set_in_the_past_is_read_when_the_head_expires(connection, held):
    first, *_ = send(connection, 2)
    for _ in range(2):
        assert len(ids(connection, "pgmq.read('orders', 30, 1)")) == 1

    connection.execute(
        "update pgmq.q_orders set vt = now() - interval '1 min' where msg_id = %s", [first]
    )

    found: list[int] = []
    wait_until(
        lambda: bool(found.extend(ids(connection, "pgmq.read('orders', 30, 1)")) or found),
        "the message whose vt a user changed",
        deadline_s=15,
    )
    assert found == [first]


def test_without_dead_entries_there_is_no_head(connection, queue):
    connection.execute(
        "select count(*) from pgmq.send_batch('orders', array_fill('1'::jsonb, array[5000]))"
    )
    assert len(ids(connection, "pgmq.read('orders', 30, 5000)")) == 5000
    connection.execute("update pgmq.q_orders set vt = now() - interval '1 min' where msg_id = 1")

    assert ids(connection, "pgmq.read('orders', 30, 1)") == [1]
    assert head(connection) == ""
    assert ids(connection, "pgmq.read('orders', 30, 1)") == []
    assert head(connection) == ""


CLAIMED = 20_000


@pytest.fixture
def claimed(connection, queue):
    """A queue with 100 ready messages behind 20,000 in flight, and a session with a head."""
    connection.execute("alter table pgmq.q_orders set (autovacuum_enabled = off)")
    send(connection, CLAIMED + 100)
    assert len(ids(connection, f"pgmq.read('orders', 30, {CLAIMED})")) == CLAIMED
    # A read after a head has expired counts the blocks, also where the machine is fast.
    connection.execute(f"select set_config({SETTING}, '0', false)")
    assert ids(connection, "pgmq.read('orders', 30, 1)") == [CLAIMED + 1]
    assert head(connection).endswith("-Infinity")
    # These tests are about reads before it expires.
    connection.execute(
        f"select set_config({SETTING}, regexp_replace(current_setting({SETTING}), '^[^ ]+', "
        "(extract(epoch from now()) + 9)::text), false)"
    )
    assert ids(connection, "pgmq.read('orders', 30, 1)") == [CLAIMED + 2]


def blocks_read(connection):
    return value(
        connection, "select pg_stat_get_xact_blocks_fetched('pgmq.q_orders_ready_idx'::regclass)"
    )


@pytest.mark.parametrize("call", ["read('orders', 30, 1)", "pop('orders', 1)"])
def test_read_after_many_claims_starts_at_the_head(connection, claimed, call):
    with connection.transaction():
        before = blocks_read(connection)
        assert ids(connection, f"pgmq.{call}") == [CLAIMED + 3]
        assert ids(connection, f"pgmq.{call}") == [CLAIMED + 4]
        # A scan from the beginning passes 55.
        assert blocks_read(connection) - before < 40


def test_due_messages_are_read_at_once_after_many_claims(connection, claimed):
    connection.execute(
        "update pgmq.q_orders set vt = enqueued_at + interval '1 us' where msg_id in (5, 7)"
    )

    assert ids(connection, "pgmq.read('orders', 30, 1)") == [5]
    assert ids(connection, "pgmq.read('orders', 30, 2)") == [7, CLAIMED + 3]


def test_vt_before_the_send_is_read_within_a_second_after_many_claims(connection, claimed):
    connection.execute(f"select set_config({SETTING}, '0', false)")
    assert ids(connection, "pgmq.read('orders', 30, 1)") == [CLAIMED + 3]
    connection.execute(
        "update pgmq.q_orders set vt = enqueued_at - interval '1 us' where msg_id = 5"
    )

    found: list[int] = []
    wait_until(
        lambda: bool(found.extend(ids(connection, "pgmq.read('orders', 30, 1)")) or 5 in found),
        "the message whose vt a user changed",
        deadline_s=5,
    )


def test_reads_of_one_move_the_head(connection, queue):
    connection.execute("alter table pgmq.q_orders set (autovacuum_enabled = off)")
    send(connection, CLAIMED + 3_000)
    assert len(ids(connection, f"pgmq.read('orders', 30, {CLAIMED})")) == CLAIMED
    later = "extract(epoch from now()) + 9"
    connection.execute(
        f"select set_config({SETTING}, format('%%s %%s -infinity', {later}, %s), false)", [CLAIMED]
    )

    found = rows(
        connection,
        "select r.msg_id from generate_series(1, 2500) as n "
        "cross join lateral pgmq.read('orders', 30, 1 + n * 0) as r",
    )

    assert [msg_id for (msg_id,) in found] == [*range(CLAIMED + 1, CLAIMED + 2_501)]
    # Only slow reads move it.
    assert float(head(connection).split()[1]) >= CLAIMED - 1_000


def test_an_expired_head_is_forgotten_without_dead_entries(connection, queue):
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")
    connection.execute(f"select set_config({SETTING}, '0', false)")

    assert ids(connection, "pgmq.read('orders', 30, 1)") == [1]

    assert head(connection) == ""
    assert ids(connection, "pgmq.read('orders', 30, 2)") == [2, 3]


@pytest.mark.slow
def test_the_head_hides_nothing_that_is_due(connection, held):
    first, second = send(connection, 2)
    assert ids(connection, "pgmq.read('orders', 30, 1)") == [first]
    assert ids(connection, "pgmq.read('orders', 30, 1)") == [second]

    connection.execute("select pgmq.set_vt('orders', %s, 0)", [first])

    assert ids(connection, "pgmq.read('orders', 30, 1)") == [first]


@pytest.mark.slow
def test_a_queue_that_is_created_again_has_a_head_of_its_own(connection, held):
    send(connection, 2)
    ids(connection, "pgmq.read('orders', 30, 2)")
    held.rollback()

    connection.execute("select pgmq.drop_queue('orders')")
    connection.execute("select pgmq.create('orders')")

    assert send(connection) == [1]
    assert ids(connection, "pgmq.read('orders', 30, 1)") == [1]


def test_an_installation_replaces_every_reader(database, connection, queue):
    connection.execute(
        "comment on function pgmq.q_orders(timestamptz, interval, integer, jsonb, boolean) is 'old'"
    )

    schema.install(connection)

    comment = "select obj_description('pgmq.q_orders'::regproc, 'pg_proc')"
    assert value(connection, comment) != "old"


def test_it_belongs_to_the_owner_of_the_schema_and_readers_may_run_it(connection, queue):
    assert rows(
        connection,
        """select pg_get_userbyid(p.proowner) = pg_get_userbyid(n.nspowner), p.prosecdef,
                  has_function_privilege('sluice_reader', p.oid, 'execute'),
                  has_function_privilege('sluice_writer', p.oid, 'execute')
           from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
           where p.proname = 'q_orders'""",
    ) == [(True, False, True, False)]
