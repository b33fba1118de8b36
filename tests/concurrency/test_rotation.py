"""Rotation with concurrent writers, readers and consumers: no lost events, no waits, reasons given.

For each check, a variant with a planted bug shows that its removal loses events.
"""

from __future__ import annotations

import threading

import psycopg
import pytest

from pgsluice import schema
from support import replace_in, rows, value, wait_for_lock
from support.log import consume_all, tick

GATE = 4711
FEW, MANY = (
    "pgq.event_1_outside(pg_snapshot,pg_snapshot,bigint,bigint,integer,integer)",
    "pgq._events_between_sql(integer,pg_snapshot,pg_snapshot,integer,integer)",
)

# PgQ's rule: all consumers have passed the segment's ticks, whatever rows the segment has.
BY_TICKS = """
create or replace function pgq._segment_use(i_queue_id integer, i_number integer, out consumers text[], out reason text)
language plpgsql as $$
begin
    select array_agg(c.co_name) into consumers
    from pgq.standing as s join pgq.consumer as c on c.co_id = s.sub_consumer
    where s.sub_queue = i_queue_id and s.pos_last_tick < (pgq._segment_span(i_queue_id, i_number)).last_tick;
    reason := 'kept for ' || consumers::text;
end;
$$"""


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        """update pgq.queue
        set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0', queue_rotation_period = '0'"""
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    # A wait here would be a deadlock with the test itself.
    connection.execute("set lock_timeout = '10 s'")


def rotate(connection):
    """Return the number of the new segment, and the result for each old one."""
    steps = rows(connection, "select segment, action, reason from sluice.rotate('changes')")
    switched = [segment for segment, action, _ in steps if action == "switched"]
    return (switched or [None])[0], {s: (a, r) for s, a, r in steps if a != "switched"}


def insert(session, data="d"):
    return value(session, "select pgq.insert_event('changes', 't', %s)", data)


def consume(connection):
    return [ev_id for batch in consume_all(connection) for ev_id in batch]


@pytest.fixture(params=[FEW, MANY], ids=["few", "many"])
def reader(request, connection, log):
    """The function that has the conditions for the events of a batch, if it is small and if it is large."""
    if request.param == MANY:
        replace_in(connection, "pgq.get_batch_events(bigint)", "integer := 500", "integer := -1")
    return request.param


def test_a_late_commit_keeps_its_segment_and_is_delivered(database, connection, log):
    with database.connect(autocommit=False) as writer:
        late = insert(writer)
        for _ in range(5):
            insert(connection)
            tick(connection)
            consume_all(connection)
            _, steps = rotate(connection)
        assert steps[0] == ("kept", f"locked by pid {writer.info.backend_pid}")
        writer.commit()

    assert rotate(connection)[1][0][0] == "kept"
    tick(connection)
    assert consume(connection) == [late]
    assert rotate(connection)[1][0] == ("reclaimed", None)


def test_a_late_commit_is_lost_when_only_ticks_count(database, connection, log):
    connection.execute(BY_TICKS)
    with database.connect(autocommit=False) as writer:
        insert(writer)
        for _ in range(2):
            tick(connection)
            consume_all(connection)
            rotate(connection)
        writer.commit()

    assert rotate(connection)[1][0] == ("reclaimed", None)
    tick(connection)
    assert consume(connection) == [], "the planted bug must lose the event"


@pytest.mark.slow
def test_a_writer_that_straddles_many_ticks_and_segments_is_delivered_once(
    database, connection, log
):
    written, delivered = [], []
    with database.connect(autocommit=False) as writer:
        for number in range(12):
            written.append(insert(writer))
            with writer.transaction(force_rollback=number % 3 == 0):
                ev_id = insert(writer)
            if number % 3:
                written.append(ev_id)
            tick(connection)
            delivered += consume(connection)
            rotate(connection)
        assert delivered == []
        writer.commit()

    rotate(connection)
    tick(connection)
    assert consume(connection) == written
    assert "kept" not in {action for action, _ in rotate(connection)[1].values()}


def test_a_writer_that_straddles_ticks_is_lost_when_only_what_began_after_the_tick_counts(
    database, connection, reader
):
    late = {FEW: "where pg_visible_in_snapshot(late.txid, i_upto)", MANY: "if i_slice = 1"}[reader]
    replace_in(connection, reader, late, f"{late.partition(' ')[0]} false")
    with database.connect(autocommit=False) as writer:
        insert(writer)
        for _ in range(3):
            tick(connection)
            assert consume(connection) == []
        writer.commit()

    tick(connection)
    assert consume(connection) == [], "the planted bug must lose the event"


def insert_behind_a_savepoint(session):
    """Insert an event in the transaction, one in a savepoint, and one that is rolled back."""
    written = [insert(session)]
    session.execute("savepoint one")
    written.append(insert(session))
    session.execute("savepoint two")
    insert(session, "rolled back")
    session.execute("rollback to savepoint two")
    return written


def test_savepoints_and_rollbacks_across_ticks_and_rotations_are_delivered_once(
    database, connection, reader
):
    with (
        database.connect(autocommit=False) as writer,
        database.connect(autocommit=False) as other,
    ):
        written = insert_behind_a_savepoint(writer)
        insert_behind_a_savepoint(other)
        for _ in range(3):
            tick(connection)
            assert consume(connection) == []
            rotate(connection)
        writer.commit()
        other.rollback()

    tick(connection)
    assert consume(connection) == written
    assert "kept" not in {action for action, _ in rotate(connection)[1].values()}


def test_filtering_by_subtransaction_id_loses_events_written_in_a_savepoint(
    database, connection, reader
):
    """The planted bug: a row's xmin is the savepoint's id, which no snapshot lists as running."""
    source = value(connection, "select pg_get_functiondef(%s::regprocedure)", reader)
    assert source.count(".ev_txid") == {FEW: 6, MANY: 4}[reader]
    connection.execute(source.replace(".ev_txid", ".xmin::text::pg_catalog.xid8"))
    with database.connect(autocommit=False) as writer:
        written = insert_behind_a_savepoint(writer)
        tick(connection)
        assert consume(connection) == []
        writer.commit()

    tick(connection)
    assert consume(connection) == written[:1], "the planted bug must lose the savepoint's event"


def write_from_an_old_snapshot(database, connection, write):
    """Insert with a snapshot from before two rotations, into the segment that was current then."""
    with database.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        assert value(old, "select queue_cur_table from pgq.queue") == 0
        for current in (1, 2):
            tick(connection)
            consume_all(connection)
            assert rotate(connection)[0] == current
        write(old)
        old.commit()
    assert value(connection, "select count(*) from only pgq.event_1_0") == 1


def copy_in(session):
    table = value(session, "select pgq.current_event_table('changes')")
    with session.cursor().copy(f"copy {table} (ev_time, ev_type, ev_data) from stdin") as copy:
        copy.write_row(("2026-01-01 00:00+00", "t", "copied"))


@pytest.mark.parametrize("write", [insert, copy_in], ids=["insert_event", "copy"])
def test_an_event_from_a_snapshot_older_than_rotations_is_delivered(
    database, connection, log, write
):
    write_from_an_old_snapshot(database, connection, write)

    assert rotate(connection)[1][0][0] == "kept"
    tick(connection)
    assert rotate(connection)[1][0] == ("kept", "not yet read by lake")
    assert consume(connection) == [1]
    assert rotate(connection)[1][0] == ("reclaimed", None)


@pytest.mark.parametrize("write", [insert, copy_in], ids=["insert_event", "copy"])
def test_an_event_from_an_old_snapshot_is_lost_when_only_ticks_count(
    database, connection, log, write
):
    connection.execute(BY_TICKS)
    write_from_an_old_snapshot(database, connection, write)

    assert rotate(connection)[1][0] == ("reclaimed", None)
    tick(connection)
    assert consume(connection) == [], "the planted bug must lose the event"


def stall_across_rotations(database, connection, write):
    with database.connect() as slow, database.connect(autocommit=False) as gate:
        # It has chosen segment 0 and waits for its lock.
        gate.execute("lock table only pgq.event_1_0 in share mode")
        stalled = threading.Thread(target=write, args=(slow,))
        stalled.start()
        wait_for_lock(connection, slow)
        for current in (1, 2):
            tick(connection)
            consume_all(connection)
            assert rotate(connection)[0] == current
        gate.commit()
        stalled.join(30)
    assert value(connection, "select count(*) from only pgq.event_1_0") == 1


@pytest.mark.parametrize("write", [insert, copy_in], ids=["insert_event", "copy"])
def test_an_insert_that_stalls_across_rotations_is_delivered(database, connection, log, write):
    stall_across_rotations(database, connection, write)

    assert rotate(connection)[1][0][0] == "kept"
    tick(connection)
    assert consume(connection) == [1]
    assert rotate(connection)[1][0] == ("reclaimed", None)


@pytest.mark.parametrize("write", [insert, copy_in], ids=["insert_event", "copy"])
def test_an_insert_that_stalls_is_lost_when_only_ticks_count(database, connection, log, write):
    connection.execute(BY_TICKS)
    stall_across_rotations(database, connection, write)

    assert rotate(connection)[1][0] == ("reclaimed", None)
    tick(connection)
    assert consume(connection) == [], "the planted bug must lose the event"


def test_an_insert_that_waits_for_the_truncation_of_its_segment_is_delivered(
    database, connection, log
):
    insert(connection)
    with database.connect(autocommit=False) as old, database.connect(autocommit=False) as rotator:
        old.execute("set transaction isolation level repeatable read")
        assert value(old, "select queue_cur_table from pgq.queue") == 0
        rotate(connection)
        tick(connection)
        assert consume(connection) == [1]
        assert rotate(rotator)[1][0] == ("reclaimed", None)
        stalled = threading.Thread(target=insert, args=(old,))
        stalled.start()
        wait_for_lock(connection, old)
        rotator.commit()
        stalled.join(30)
        old.commit()

    tick(connection)
    assert consume(connection) == [2]


def test_rotation_does_not_wait_and_names_the_blocking_session(database, connection, log):
    insert(connection)
    rotate(connection)
    tick(connection)
    consume_all(connection)
    with database.connect(autocommit=False) as reader, database.connect(autocommit=False) as locker:
        value(reader, "select count(*) from only pgq.event_1_0")
        locker.execute("lock table only pgq.event_1_2 in access exclusive mode")
        in_the_way = {
            0: ("kept", f"locked by pid {reader.info.backend_pid}"),
            2: ("kept", f"locked by pid {locker.info.backend_pid}"),
        }

        assert rotate(connection) == (3, in_the_way)
        listed = dict(
            rows(connection, "select segment, reason from sluice.list_segments('changes')")
        )
        assert listed == {n: why for n, (_, why) in in_the_way.items()} | {
            1: None,
            3: "events go here",
        }

        locker.rollback()
        assert rotate(connection)[1][0] == in_the_way[0]
        reader.rollback()

    assert rotate(connection)[1][0] == ("reclaimed", None)


def test_rotation_that_waits_for_a_reader_makes_writers_wait_behind_it(database, connection, log):
    """The planted bug: if rotation waits without a limit, one reader blocks all writers."""
    replace_in(connection, "pgq._reclaim(integer,integer)", "integer := 100", "integer := 60000")
    insert(connection)
    rotate(connection)
    tick(connection)
    consume_all(connection)
    with (
        database.connect(autocommit=False) as reader,
        database.connect() as rotator,
        database.connect() as consumer,
    ):
        value(reader, "select count(*) from only pgq.event_1_0")
        waiting = threading.Thread(target=rotate, args=(rotator,))
        waiting.start()
        wait_for_lock(connection, rotator)
        consumer.execute("set lock_timeout = '0.2 s'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            consumer.execute("select count(*) from pgq.event_1")
        reader.rollback()
        waiting.join(30)


def reclaimed_with_constant_readers(database, connection):
    """True if one of ten rotations truncates segment 0 while consumers read all segments."""
    insert(connection)
    rotate(connection)
    tick(connection)
    consume_all(connection)
    with database.connect(autocommit=False) as first, database.connect(autocommit=False) as second:
        outcomes = []
        readers = (first, second)
        value(readers[0], "select count(*) from pgq.event_1")
        for _ in range(10):
            rotating = threading.Thread(
                target=lambda: outcomes.append(rotate(connection)[1].get(0))
            )
            rotating.start()
            rotating.join(0.02)
            # The next reader starts before the previous one ends.
            beginning = threading.Thread(
                target=value, args=(readers[1], "select count(*) from pgq.event_1")
            )
            beginning.start()
            beginning.join(0.02)
            readers[0].commit()
            beginning.join(30)
            rotating.join(30)
            readers = (readers[1], readers[0])
        readers[0].commit()
    return ("reclaimed", None) in outcomes


def test_consumers_that_are_always_reading_do_not_keep_a_segment_for_ever(
    database, connection, log
):
    assert reclaimed_with_constant_readers(database, connection)


def test_without_a_wait_they_keep_it(database, connection, log):
    replace_in(
        connection,
        "pgq._reclaim(integer,integer)",
        "v_wait_ms_max constant integer := 100",
        "v_wait_ms_max constant integer := 0",
    )

    assert not reclaimed_with_constant_readers(database, connection)


def rotate_between_probe_and_lock(database, connection, *, probe_again):
    """Commit a write to segment 0 after rotation found it empty and before it locks it."""
    function = "pgq._reclaim(integer,integer)"
    source = value(connection, "select pg_get_functiondef(%s::regprocedure)", function)
    before, between, behind = source.split("v_use := pgq._segment_use(i_queue_id, i_number);")
    probe = f"v_use := pgq._segment_use(i_queue_id, i_number); perform pg_advisory_xact_lock_shared({GATE});"
    second = probe if probe_again else "v_use.reason := null;"
    with (
        database.connect(autocommit=False) as gate,
        database.connect(autocommit=False) as writer,
        database.connect() as rotator,
    ):
        insert(writer)
        tick(connection)
        consume_all(connection)
        assert rotate(connection)[0] == 1
        connection.execute(before + probe + between + second + behind)
        gate.execute("select pg_advisory_xact_lock(%s)", (GATE,))
        steps = []
        rotating = threading.Thread(target=lambda: steps.append(rotate(rotator)[1][0]))
        rotating.start()
        wait_for_lock(connection, rotator)
        writer.commit()
        gate.commit()
        rotating.join(30)
    return steps[0]


def test_a_commit_between_look_and_lock_is_seen_by_the_second_look(database, connection, log):
    assert rotate_between_probe_and_lock(database, connection, probe_again=True)[0] == "kept"

    tick(connection)
    assert consume(connection) == [1]


def test_a_commit_between_look_and_lock_is_lost_without_the_second_look(database, connection, log):
    assert rotate_between_probe_and_lock(database, connection, probe_again=False)[0] == "reclaimed"

    tick(connection)
    assert consume(connection) == [], "the planted bug must lose the event"


def test_rotation_leaves_a_log_alone_that_is_registered_to_or_ticked(database, connection, log):
    with database.connect(autocommit=False) as other:
        other.execute("select pgq.register_consumer('changes', 'second')")
        assert rotate(connection) == (
            None,
            {None: ("kept", "the log is locked by a registration, rotation or change")},
        )
        other.rollback()
        other.execute("select pgq.ticker('changes')")
        assert rotate(connection) == (None, {None: ("kept", "the log is being ticked")})


def test_a_segment_is_not_emptied_under_a_consumer_that_goes_back(database, connection, log):
    """An uncommitted registration at an old tick locks the log's row, and rotation waits for it."""
    insert(connection)
    tick(connection)
    consume_all(connection)
    rotate(connection)
    with database.connect(autocommit=False) as other:
        other.execute("select sluice.log_start('changes', 'second', 'earliest')")
        assert rotate(connection)[1][None][0] == "kept"
        other.commit()

    assert rotate(connection)[1][0] == ("kept", "not yet read by second")
    assert consume_all(connection, consumer="second")[0] == [1]


def test_ticks_between_a_late_transaction_and_its_end_go_with_its_segment(
    database, connection, log
):
    """A reader from a retained tick gets every event since it."""
    with database.connect(autocommit=False) as writer:
        insert(writer)
        rotate(connection)
        for _ in range(3):
            insert(connection)
            tick(connection)
        writer.commit()
    tick(connection)
    consume_all(connection)

    assert rotate(connection)[1][0] == ("reclaimed", None)
    assert rows(connection, "select tick_id from pgq.tick order by 1") == [(5,)]


def test_a_stalled_rotation_holds_up_no_tick_and_no_second_rotation(database, connection, log):
    with database.connect(autocommit=False) as rotator:
        assert rotate(rotator)[0] == 1
        assert value(connection, "select pgq.ticker('changes')") is None
        assert rotate(connection)[0] is None
        insert(connection)
    tick(connection)
    assert consume(connection) == [1]


@pytest.mark.slow
def test_installation_waits_for_a_rotation_and_a_rotation_skips_its_logs(database, connection, log):
    insert(connection)
    tick(connection)
    rotate(connection)
    consume_all(connection)
    tick(connection)
    consume_all(connection)
    # The installation locks the logs that it changes.
    connection.execute("revoke select on pgq.event_1_0 from pgq_reader")
    outcome = []

    def install():
        schema.install(other)
        outcome.append("installed")

    with (
        database.connect(autocommit=False) as other,
        database.connect(autocommit=False) as rotating,
    ):
        assert rotate(rotating)[1][0] == ("reclaimed", None)
        thread = threading.Thread(target=install)
        thread.start()
        wait_for_lock(connection, other)
        rotating.commit()
        thread.join(60)
        assert outcome == ["installed"]

        steps = rows(rotating, "select segment, action, reason from sluice.rotate('changes')")
        assert (None, "kept", "the log is locked by a registration, rotation or change") in steps
        other.commit()
