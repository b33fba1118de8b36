"""sluice.group_dead_letters: dead letters by reason, error type and error."""

import json

import psycopg
import pytest

from support import rows
from support.dead_letters import make_many, named


@pytest.fixture(params=[("Orders", None), ("events", "g")], ids=["queue", "share group"])
def grouped(connection, request):
    """Dead letters 1 to 5 of a queue or share group: three of one error, one of another, one without.

    Returns the arguments of functions that select them.
    """
    queue_name, consumer_name = request.param
    for number, (reason, error_type, error) in enumerate(
        (
            ("too many attempts", "KeyError", "'user-1'\ntrace"),
            ("too many attempts", "KeyError", "'user-2'"),
            ("rejected", None, None),
            ("too many attempts", "TimeoutError", "no answer in 30 s"),
            ("too many attempts", "KeyError", "'user-3'"),
        ),
        1,
    ):
        connection.execute(
            "insert into sluice.dead_letter (queue_name, consumer_name, msg_id, read_ct, enqueued_at, reason, error_type, error, dead_at) "
            "values (%s, %s, %s, 1, now(), %s, %s, %s, '2026-01-01 00:00+00'::timestamptz + make_interval(days => %s))",
            (queue_name, consumer_name, number, reason, error_type, error, number),
        )
    return "'orders', null" if consumer_name is None else "'events', 'g'"


QUERY = (
    "select reason, error_type, error, letters, extract(day from first_dead_at at time zone 'UTC'), "
    "extract(day from last_dead_at at time zone 'UTC'), example_dead_letter_id, example_error "
    "from sluice.group_dead_letters"
)


def test_dead_letters_are_grouped_by_error_most_frequent_first(connection, grouped):
    assert rows(connection, f"{QUERY}({grouped})") == [
        ("too many attempts", "KeyError", "#", 3, 2, 6, 5, "'user-3'"),
        ("too many attempts", "TimeoutError", "no answer in # s", 1, 5, 5, 4, "no answer in 30 s"),
        ("rejected", "", "", 1, 4, 4, 3, None),
    ]


def test_only_the_newest_are_grouped(connection, grouped):
    assert [row[3:7:3] for row in rows(connection, f"{QUERY}({grouped}, 2)")] == [(1, 5), (1, 4)]


def test_search_finds_the_members_of_a_group(connection, grouped):
    found = rows(
        connection,
        "select letters, jsonb_build_object('reason', reason, 'error_type', error_type, 'error', error) "
        f"from sluice.group_dead_letters({grouped})",
    )
    for count, chosen in found:
        query = f"select letter from sluice.list_dead_letters({grouped}, %s)"
        assert len(rows(connection, query, json.dumps(chosen))) == count
    assert len(found) == 3


def test_queue_or_share_group_without_dead_letters_has_no_groups(connection, grouped):
    for missing in ("'missing'", "'events'", "'orders', 'g'", "'events', 'h'"):
        assert rows(connection, f"{QUERY}({missing})") == []


@pytest.mark.slow
@pytest.mark.parametrize("is_group", [False, True], ids=["queue", "share group"])
def test_grouping_many_dead_letters_costs_what_it_looks_at(connection, buffers, is_group):
    make_many(connection, 100_000, 2, is_group=is_group)

    of = named("q1", is_group=is_group)
    assert buffers(f"select * from sluice.group_dead_letters({of}, 100)") < 150


def test_readers_see_groups_and_monitors_do_not(connection, grouped, as_member):
    query = f"select letters from sluice.group_dead_letters({grouped})"

    assert len(as_member("sluice_reader", query)) == 3
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", query)
