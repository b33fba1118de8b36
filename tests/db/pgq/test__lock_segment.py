"""pgq._lock_segment: its lock order of a segment's tables."""

from concurrent.futures import ThreadPoolExecutor

from support import value, wait_for_lock

LOCK = "select pgq._lock_segment(%s, 1, 'access exclusive', 30000)"


def test_a_wait_for_a_segment_does_not_block_its_readers(database, connection):
    """A reader locks the ticks of a segment, then its events."""
    connection.execute("select pgq.create_queue('orders')")
    queue_id = value(connection, "select queue_id from pgq.queue where queue_name = 'orders'")
    with (
        ThreadPoolExecutor(1) as thread,
        database.connect(autocommit=False) as reader,
        database.connect() as rotation,
    ):
        reader.execute(f"select from only pgq.tick_{queue_id}_1")
        locked = thread.submit(value, rotation, LOCK, queue_id)
        wait_for_lock(connection, rotation)
        reader.execute(f"lock table only pgq.event_{queue_id}_1 in access share mode nowait")
        reader.commit()

        assert locked.result() is True
