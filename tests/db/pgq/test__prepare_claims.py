"""pgq._prepare_claims: the indexes of a log that has share groups."""

from __future__ import annotations

from support import rows, value
from support_log import consume_all, tick

INDEXES = """select c.relname, pg_get_indexdef(i.indexrelid)
    from pg_index as i
    join pg_class as c on c.oid = i.indrelid
    where c.relname ~ '^event_1(_[0-9]+)?$' order by 1, 2"""


def columns(connection) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for table, definition in rows(connection, INDEXES):
        found.setdefault(table, []).append(definition.partition("btree ")[2])
    return found


def test_a_log_without_groups_pays_for_one_index(connection, log):
    assert set(map(tuple, columns(connection).values())) == {("(ev_txid)",)}


def test_it_makes_them_once_on_the_parent_and_every_segment(connection, log):
    query = "select pgq._prepare_claims(1)"
    before = columns(connection)

    assert [value(connection, query) for _ in range(2)] == [True, False]

    after = columns(connection)
    assert after.keys() == before.keys()
    assert set(map(tuple, after.values())) == {("(ev_id)", "(ev_txid, ev_id)")}


def test_a_new_segment_has_them(connection, log):
    connection.execute("select pgq._prepare_claims(1)")

    connection.execute("select pgq._create_segment(1, 7)")

    assert columns(connection)["event_1_7"] == ["(ev_id)", "(ev_txid, ev_id)"]


def test_the_batches_of_the_consumers_go_on(connection, log, consumer):
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 5)")
    connection.execute("select pgq._prepare_claims(1)")
    tick(connection)

    assert consume_all(connection) == [[1, 2, 3, 4, 5]]
