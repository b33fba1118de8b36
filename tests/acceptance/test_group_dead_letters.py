"""`pgsluice group dead-letters` on a real server."""

from __future__ import annotations

import json
import sys
import time

import pytest

from pgsluice.cli.main import main
from support import rows, value


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        yield connection


@pytest.fixture
def dead(database_18, connection, capsys, monkeypatch):
    """Six dead letters of group `g` of the log `events`; runs a command and returns its output."""
    connection.execute("select pgq.create_queue('events'), pgmq.create('again')")
    connection.execute("select sluice.create_group('events', 'g')")
    connection.execute(
        "select pgq.insert_event('events', case n % 2 when 1 then 'odd' else 'even' end, n::text)"
        " from generate_series(1, 6) as n"
    )
    claim = value(connection, "select min(claim_id) from sluice.claim('events', 'g', 10)")
    connection.execute(
        "select sluice.acknowledge('events', 'g', %s, 'reject', reason => 'bad')", (claim,)
    )

    dsn = ("--dsn", database_18.url)

    def run(command, *arguments, group="g", code=0, errors=False):
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(SystemExit) as ended:
            main(["group", "dead-letters", command, "events", group, *arguments, *dsn])
        printed = capsys.readouterr()
        assert ended.value.code == code, f"{arguments}: {ended.value.code}\n{printed}"
        return printed.err if errors else printed.out

    return run


def records(printed):
    return [json.loads(line) for line in printed.splitlines()]


def test_list_prints_them_as_json_lines_and_pages_go_on(dead):
    events = records(dead("list", "--qty", "4"))

    assert [event["dead_event_id"] for event in events] == [1, 2, 3, 4]
    assert (events[0]["ev_data"], events[0]["reason"], events[0]["attempts"]) == ("1", "bad", 1)
    assert [event["ev_id"] for event in records(dead("list", "--after", "4"))] == [5, 6]


def test_list_reads_page_by_page(dead, monkeypatch):
    monkeypatch.setattr("pgsluice.cli.clients.STEP", 2)

    assert len(records(dead("list"))) == 6
    assert len(records(dead("list", "--qty", "3"))) == 3


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--ev-type", "odd"], [1, 3, 5]),
        (["--ev-id", "2", "--ev-id", "3"], [2, 3]),
        (["--reason", "other"], []),
        (["--since", "2100-01-01T00:00"], []),
        (["--until", "2100-01-01T00:00Z", "--ev-type", "even"], [2, 4, 6]),
    ],
)
def test_filters_select_dead_events(dead, options, wanted):
    assert [event["ev_id"] for event in records(dead("list", *options))] == wanted
    assert dead("list", "--count", *options).split() == [str(len(wanted))]


def test_redrive_by_ids_prints_the_new_ones_and_names_what_is_missing(dead, connection):
    assert records(dead("redrive", "2", "3")) == [
        {"dead_event_id": 2, "ev_id": 7, "msg_id": None},
        {"dead_event_id": 3, "ev_id": 8, "msg_id": None},
    ]
    assert "77" in dead("redrive", "77", "1", code=1, errors=True)
    claimed = rows(connection, "select ev_data, redriven from sluice.claim('events', 'g', 10)")
    assert claimed == [("2", 1), ("3", 1), ("1", 1)]


def test_redrive_of_a_filter_goes_into_a_queue_in_steps(dead, connection, monkeypatch):
    monkeypatch.setattr("pgsluice.cli.dead_letters.STEP", 2)

    assert json.loads(dead("redrive", "--ev-type", "odd", "--into", "again", "--json")) == {
        "redriven": 3
    }
    assert value(connection, "select count(*) from pgmq.q_again") == 3
    assert dead("redrive", "--all") == "3 dead letters redriven\n"


@pytest.mark.slow
def test_redrive_keeps_to_a_rate(dead):
    began_s = time.monotonic()

    assert dead("redrive", "--all", "--rate", "4") == "6 dead letters redriven\n"

    assert time.monotonic() - began_s >= 1.0, "four in the first second, two in the second"


def test_purge_deletes_those_with_ids_or_those_that_are_old(dead, connection):
    assert dead("purge", "2", "3", "--yes") == "2 dead letters deleted\n"
    assert dead("purge", "--older-than", "1h", "--yes") == "0 dead letters deleted\n"
    assert json.loads(dead("purge", "--older-than", "0s", "--yes", "--json")) == {"purged": 4}
    assert value(connection, "select count(*) from sluice.dead_event") == 0


def test_a_group_that_is_not_there_is_named_with_the_way_out(dead):
    assert "pgsluice group create events h" in dead(
        "redrive", "--all", group="h", code=3, errors=True
    )
    assert "pgsluice group create events h" in dead("list", group="h", code=3, errors=True)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("redrive", []),
        ("redrive", ["1", "--all"]),
        ("redrive", ["1", "--rate", "2"]),
        ("purge", ["--yes"]),
        ("purge", ["--yes", "1", "--older-than", "1d"]),
        ("purge", ["--yes", "--older-than", "forever"]),
        ("list", ["--count", "--qty", "3"]),
    ],
)
def test_contradicting_options_are_a_usage_error(dead, command, options):
    assert "Usage" in dead(command, *options, code=2, errors=True)
