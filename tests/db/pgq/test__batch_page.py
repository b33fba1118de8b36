"""Pages of large batches; their odd cases are in tests/db/sluice/test_get_batch_page.py."""

from support import rows, value
from support.log import open_batch

PAGE = """select p.ev_id
          from pgq.open_batch as b
          cross join lateral pgq._batch_page(
              b.sub_queue, b.sub_id, b.pos_last_snapshot, b.pos_next_snapshot, %s::bigint, %s::integer
          ) as p
          where b.batch_id = %s"""


def test_pages_of_a_batch_are_its_events_by_number(connection, consumer):
    batch = open_batch(connection, 10)

    assert rows(connection, PAGE, None, 4, batch) == [(1,), (2,), (3,), (4,)]
    assert rows(connection, PAGE, 8, 4, batch) == [(9,), (10,)]
    assert rows(connection, PAGE, 10, 4, batch) == []


def test_session_remembers_the_blocks_of_the_last_batch(connection, consumer):
    batch = open_batch(connection, 10)
    rows(connection, PAGE, None, 4, batch)

    ranges = value(connection, "select current_setting('sluice.batch_ranges')").split(";")

    assert ranges[3:] == ["{1}", "{10}", "{10}"]
