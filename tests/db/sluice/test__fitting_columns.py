"""Rows too large for an event: the option row_bytes_max of sluice.capture, sluice._fitting_columns."""

import json

import pytest

from support import rows, value
from support.capture import logged

HUGE = 270_000_000  # its text, as before and after, is more than PostgreSQL can hold


@pytest.fixture
def big(connection):
    connection.execute("create table big (id int primary key, n int, b bytea, c text)")
    connection.execute("select pgq.create_queue('changes')")
    return "big"


def envelopes(connection):
    return [json.loads(data) for _, data in logged(connection)]


@pytest.mark.slow
@pytest.mark.parametrize("key", ["primary key", ""], ids=["key", "no key"])
def test_a_huge_row_is_written_updated_and_deleted(connection, key):
    connection.execute(f"create table big (id int {key}, n int, b bytea)")
    connection.execute("insert into big select 1, 1, convert_to(repeat('x', %s), 'UTF8')", (HUGE,))
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('big', 'changes')")

    connection.execute("update big set n = n + 1")
    connection.execute("delete from big")

    updated, deleted = envelopes(connection)
    assert updated["before"] == {"id": 1, "n": 1, "b": None}
    assert updated["after"] == {"id": 1, "n": 2, "b": None}
    assert updated["left_out"] == {"before": ["b"], "after": ["b"]}
    assert deleted["left_out"] == {"before": ["b"]}


@pytest.mark.parametrize("values", ["(1, 1, %s, 'c')", "(1, 1, %s, 'c'), (2, 2, null, 'd')"])
def test_only_values_beyond_the_share_of_a_large_row_are_left_out(connection, big, values):
    connection.execute("""select sluice.capture('big', 'changes', '{"row_bytes_max": 10000}')""")

    connection.execute(f"insert into big values {values}", (b"x" * 20_000,))

    first, *others = envelopes(connection)
    assert first["after"] == {"id": 1, "n": 1, "b": None, "c": "c"}
    assert first["left_out"] == {"after": ["b"]}
    assert [event["after"]["c"] for event in others] == ["d"] * len(others)


def test_a_row_within_the_limit_has_its_values(connection, big):
    connection.execute("""select sluice.capture('big', 'changes', '{"row_bytes_max": 30000}')""")

    connection.execute("insert into big values (1, 1, %s, 'c')", (b"x" * 20_000,))
    connection.execute("update big set b = 'y', n = 2")

    inserted, updated = envelopes(connection)
    assert inserted["after"]["b"] == "\\x" + b"x".hex() * 20_000
    assert updated["before"] == inserted["after"]
    assert "left_out" not in inserted
    assert "left_out" not in updated


def test_an_update_of_a_value_that_is_left_out_has_an_event(connection, big):
    connection.execute(
        """select sluice.capture('big', 'changes', '{"row_bytes_max": 10000, "ignore": ["c"]}')"""
    )
    connection.execute("insert into big values (1, 1, %s, 'c')", (b"x" * 20_000,))
    connection.execute("update big set b = %s", (b"y" * 20_000,))

    assert [event["op"] for event in envelopes(connection)] == ["c", "u"]


def test_truncate_of_a_partition_with_a_large_row(connection):
    connection.execute("create table big (id int primary key, b text) partition by range (id)")
    connection.execute("create table part partition of big default")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("""select sluice.capture('big', 'changes', '{"row_bytes_max": 10000}')""")
    connection.execute("insert into big values (1, repeat('x', 2000000))")
    connection.execute("truncate part")

    assert envelopes(connection)[-1]["before"] == {"id": 1, "b": None}


@pytest.mark.parametrize("limit", ["0", "67108865", '"1"', "1.5", "null", "true"])
def test_a_bad_limit_is_refused(connection, big, limit):
    with pytest.raises(Exception, match="row_bytes_max"):
        value(
            connection,
            "select sluice.capture('big', 'changes', %s::jsonb)",
            f'{{"row_bytes_max": {limit}}}',
        )
    assert rows(connection, "select * from sluice.list_captures()") == []


# Its columns are written one after the other, as no statement could hold them. Not compressed, so each has its size on disk.
@pytest.mark.long
def test_a_row_of_more_than_1_gb_in_all_is_updated_and_deleted(database_18):
    names = ["b", "c", "d", "e"]
    with database_18.connect() as connection:
        connection.execute(
            f"create table big (id int primary key, n int, {', '.join(f'{n} bytea' for n in names)})"
        )
        for name in names:
            connection.execute(f"alter table big alter {name} set storage external")
        connection.execute("insert into big values (1, 1)")
        for name in names:
            connection.execute(
                f"update big set {name} = convert_to(repeat('x', %s), 'UTF8')", (HUGE,)
            )
        connection.execute("select pgq.create_queue('changes')")
        connection.execute("select sluice.capture('big', 'changes')")

        connection.execute("update big set n = n + 1")
        connection.execute("select sluice.capture_snapshot('big', 'changes')")
        connection.execute("delete from big")

        updated, read, deleted = envelopes(connection)
        row = {"id": 1, "n": 2, **dict.fromkeys(names)}
        assert updated["after"] == read["after"] == deleted["before"] == row
        assert updated["left_out"] == {"before": names, "after": names}
        assert read["left_out"] == {"after": names}
        assert deleted["left_out"] == {"before": names}
