"""`pgsluice dead-letters` on a real server, for queues, share groups and consumers."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from pgsluice import EventLog, FailedEvent
from support import rows, value


class Dead:
    """Six dead letters of a queue or share group; runs commands for it and returns their output.

    Attributes:
        place: The arguments that name it.
        by_error: A filter that selects all.
        odd: A filter that selects numbers 1, 3 and 5.
    """

    def __init__(self, command, place, by_error, odd):
        self._command = command
        self.place = place
        self.by_error = by_error
        self.odd = odd

    def __call__(self, command, *arguments, code=0, errors=False):
        done = self._command("dead-letters", command, *self.place, *arguments, code=code)
        return done.stderr if errors else done.stdout


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        connection.execute("select pgmq.create('orders'), pgmq.create('again')")
        connection.execute("select pgq.create_queue('events')")
        yield connection


@pytest.fixture
def of_queue(connection, command):
    connection.execute(
        "select pgmq.send_batch('orders', array_agg(jsonb_build_object('n', n, 'odd', n % 2 = 1)),"
        " array_agg(jsonb_build_object('h', n))) from generate_series(1, 6) as n"
    )
    connection.execute("select pgmq.read('orders', 30, 6)")
    connection.execute(
        "select sluice.fail('orders', jsonb_agg(jsonb_build_object('msg_id', n, 'read_ct', 1, 'reject', true, 'reason', 'bad', "
        "'error_type', 'KeyError', 'error', 'k', 'trace', 'at 1')), 'w1') from generate_series(1, 6) as n"
    )
    return Dead(
        command,
        ["orders"],
        ["--error-type", "KeyError", "--reason", "bad"],
        ["--conditional", '{"odd": true}'],
    )


@pytest.fixture
def of_group(connection, command):
    connection.execute("select sluice.create_group('events', 'g')")
    connection.execute(
        "select pgq.insert_event('events', case n % 2 when 1 then 'odd' else 'even' end, n::text)"
        " from generate_series(1, 6) as n"
    )
    claim = value(connection, "select min(claim_id) from sluice.claim('events', 'g', 10)")
    connection.execute(
        "select sluice.acknowledge('events', 'g', %s, 'reject', reason => 'bad')", (claim,)
    )
    return Dead(command, ["events", "--consumer", "g"], ["--reason", "bad"], ["--ev-type", "odd"])


@pytest.fixture(params=["of_queue", "of_group"])
def dead(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def of_consumer(connection, command):
    """A dead letter of a consumer, number 1, whose event is 1."""
    log = EventLog(connection)
    log.register_consumer("events", "c")
    log.insert_event("events", "t", "1")
    log.log_tick("events")
    batch_id = log.next_batch("events", "c")
    log.reject_events(batch_id, [FailedEvent(1, "bad", "KeyError", "k", "at 1")])
    log.finish_batch(batch_id)
    return Dead(command, ["events", "--consumer", "c"], ["--error-type", "KeyError"], [])


def records(printed):
    return [json.loads(line) for line in printed.splitlines()]


def test_list_prints_them_as_json_lines_and_pages_go_on(dead):
    letters = records(dead("list", "--qty", "4"))

    assert [letter["dead_letter_id"] for letter in letters] == [1, 2, 3, 4]
    assert (letters[0]["reason"], letters[0]["attempts"]) == ("bad", 1)
    assert [letter["msg_id"] for letter in records(dead("list", "--after", "4"))] == [5, 6]


def test_list_prints_all_that_is_known_of_a_message(of_queue):
    (letter,) = records(of_queue("list", "--qty", "1"))

    columns = ("consumer_name", "message", "headers", "error_type", "error", "trace", "worker")
    assert [letter[name] for name in columns] == [
        None, {"n": 1, "odd": True}, {"h": 1}, "KeyError", "k", "at 1", "w1",
    ]  # fmt: skip
    assert letter["first_failed_at"] is not None


def test_list_prints_all_that_is_known_of_an_event(of_group, of_consumer):
    (letter,) = records(of_group("list", "--qty", "1"))
    assert (letter["consumer_name"], letter["ev_type"], letter["ev_data"]) == ("g", "odd", "1")
    assert (letter["redriven"], letter["message"]) == (0, None)

    # Event 7 is the consumer's own.
    (letter,) = records(of_consumer("list", "--error-type", "KeyError"))
    columns = ("consumer_name", "msg_id", "ev_data", "reason", "error", "trace")
    assert [letter[name] for name in columns] == ["c", 1, "1", "bad", "k", "at 1"]


def test_list_reads_page_by_page(dead, monkeypatch):
    monkeypatch.setattr("pgsluice.cli.clients.STEP", 2)

    assert len(records(dead("list"))) == 6
    assert len(records(dead("list", "--qty", "3"))) == 3


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([], [1, 2, 3, 4, 5, 6]),
        (["--msg-id", "2", "--msg-id", "3"], [2, 3]),
        (["--reason", "too many attempts"], []),
        (["--error-type", "ValueError"], []),
        (["--since", "2100-01-01T00:00"], []),
        (["--until", "2020-01-01"], []),
        (["--until", "2100-01-01T00:00Z"], [1, 2, 3, 4, 5, 6]),
        (["--matching", "4"], [4]),
        (["--matching", "no such text"], []),
    ],
)
def test_filters_select_dead_letters(dead, options, wanted):
    for filters, chosen in (
        (options, wanted),
        ([*options, *dead.odd], [n for n in wanted if n % 2]),
    ):
        assert [letter["msg_id"] for letter in records(dead("list", *filters))] == chosen
        assert dead("list", "--count", *filters) == f"{len(chosen)}\n"
    assert dead("list", "--count", *dead.by_error) == "6\n"


def test_filter_selects_messages_by_their_headers(of_queue):
    assert of_queue("list", "--count", "--conditional-headers", '{"h": 2}') == "1\n"
    since = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert of_queue("list", "--count", "--since", since) == "0\n"


def test_redrive_by_ids_prints_the_new_ones_and_names_what_is_missing(dead):
    assert records(dead("redrive", "2", "3")) == [
        {"dead_letter_id": 2, "msg_id": 7},
        {"dead_letter_id": 3, "msg_id": 8},
    ]
    missing = dead("redrive", "77", "2", "1", code=1, errors=True)

    assert "not found in the dead letters: 2, 77" in missing
    assert [letter["dead_letter_id"] for letter in records(dead("list"))] == [4, 5, 6]


def test_redriven_dead_letters_are_delivered_with_their_origin(of_queue, of_group, connection):
    of_queue("redrive", "2", "3")
    of_group("redrive", "8", "9")

    marked = (
        "select headers -> 'x-pgmq-replayed-from' ->> 'msg_id' from pgmq.q_orders order by msg_id"
    )
    assert rows(connection, marked) == [("2",), ("3",)]
    claimed = rows(connection, "select ev_data, redriven from sluice.claim('events', 'g', 10)")
    assert claimed == [("2", 1), ("3", 1)]


def test_event_of_a_consumer_is_redriven_to_it(of_consumer, connection):
    assert records(of_consumer("redrive", "1")) == [{"dead_letter_id": 1, "msg_id": 2}]

    log = EventLog(connection)
    log.log_tick("events")
    (event,) = log.get_batch_events(log.next_batch("events", "c"))
    assert (event.ev_id, event.ev_data, event.ev_retry) == (2, "1", None)
    assert of_consumer("purge", "--older-than", "0s", "--yes") == "0 dead letters deleted\n"


def test_redrive_of_a_filter_goes_into_a_queue_in_steps(dead, connection, monkeypatch):
    monkeypatch.setattr("pgsluice.cli.dead_letters.STEP", 2)

    assert dead("redrive", "--reason", "parked") == "0 dead letters redriven\n"
    assert json.loads(dead("redrive", *dead.odd, "--into", "again", "--json")) == {"redriven": 3}
    assert value(connection, "select count(*) from pgmq.q_again") == 3
    assert dead("redrive", "--all") == "3 dead letters redriven\n"


def test_thousands_are_redriven_to_another_queue(of_queue, connection):
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, reason) "
        "select 'orders', n, 1, now(), to_jsonb(n), 'r' from generate_series(1001, 2500) as n"
    )

    assert of_queue("redrive", "--conditional", "1001") == "1 dead letter redriven\n"
    assert json.loads(of_queue("redrive", "--all", "--into", "again", "--json")) == {
        "redriven": 1505
    }

    assert value(connection, "select count(*) from pgmq.q_again") == 1505
    assert value(connection, "select count(*) from sluice.dead_letter") == 0


def test_letters_that_fail_again_at_once_are_not_moved_again(of_queue, connection):
    connection.execute(
        "create function public.fail() returns trigger language plpgsql as $$ begin "
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason) "
        "values ('orders', new.msg_id, 1, now(), 'again'); return null; end $$"
    )
    connection.execute(
        "create trigger fail before insert on pgmq.q_orders for each row execute function public.fail()"
    )

    of_queue("redrive", "--all")

    again = "select dead_letter_id, reason from sluice.dead_letter order by 1"
    assert rows(connection, again) == [(n, "again") for n in range(7, 13)]


def test_progress_is_shown_on_a_terminal_and_beside_the_output(of_queue, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert of_queue("redrive", *of_queue.odd, errors=True) == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    assert "3/3" in of_queue("redrive", "--all", errors=True)


@pytest.mark.slow
def test_redrive_keeps_to_a_rate(dead):
    began_s = time.monotonic()

    assert dead("redrive", "--all", "--rate", "4") == "6 dead letters redriven\n"

    assert 1.0 <= time.monotonic() - began_s < 5.0, "four in the first second, two in the second"


def test_a_rate_is_kept(of_queue, monkeypatch):
    of_queue("redrive", "1")
    paused = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=paused.append)
    monkeypatch.setattr("pgsluice.cli.dead_letters.time", clock)

    assert json.loads(of_queue("redrive", "--all", "--rate", "2", "--json")) == {"redriven": 5}

    assert len(paused) == 2  # after the first and second pair, not after the last
    assert 0 < paused[0] <= 1
    assert 1 < paused[1] <= 2


def test_purge_deletes_those_with_ids_or_those_that_are_old(dead, connection):
    connection.execute(
        "update sluice.dead_letter set dead_at = now() - interval '2 h' where msg_id = 2"
    )

    assert dead("purge", "1", "77", "--yes") == "1 dead letter deleted\n"
    assert json.loads(dead("purge", "--older-than", "1h", "--yes", "--json")) == {"purged": 1}
    assert dead("purge", "--older-than", "0s", "--yes") == "4 dead letters deleted\n"

    assert value(connection, "select count(*) from sluice.dead_letter") == 0


MISSING = [
    ("list",),
    ("list", "--count"),
    ("redrive", "--all"),
    ("purge", "--older-than", "0", "--yes"),
]


@pytest.mark.parametrize("arguments", MISSING, ids=" ".join)
def test_missing_queue_log_or_consumer_is_named(connection, command, arguments):
    """Nothing was found there: the error names what is missing and the command that lists what is there."""
    name, *options = arguments
    for place, words in (
        (["nope"], "queue 'nope' does not exist and has no dead letters; see: pgsluice queue list"),
        (["nope", "--consumer", "g"], "event log 'nope' does not exist"),
        (
            ["events", "--consumer", "nope"],
            "log 'events' has neither a share group nor a consumer 'nope', and no dead letters of it; "
            "see: pgsluice log consumers events",
        ),
    ):
        assert words in command("dead-letters", name, *place, *options, code=3).stderr


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (["nope"], "queue 'nope' does not exist"),
        (["nope", "--consumer", "g"], "event log 'nope' does not exist"),
        (["events", "--consumer", "nope"], "log 'events' has no share group or consumer 'nope'"),
        (["orders", "--into", "nope"], "queue 'nope' does not exist"),
    ],
)
def test_redrive_by_ids_names_what_is_missing(connection, command, place, words):
    assert words in command("dead-letters", "redrive", *place, "1", code=3).stderr


@pytest.mark.parametrize("arguments", MISSING, ids=" ".join)
def test_place_without_dead_letters_is_no_error(of_consumer, connection, command, arguments):
    connection.execute("truncate sluice.dead_letter")
    connection.execute("select sluice.create_group('events', 'g')")
    name, *options = arguments
    for place in (["orders"], ["events", "--consumer", "g"], of_consumer.place):
        command("dead-letters", name, *place, *options)


def test_dead_letters_outlive_their_queue_group_and_log(of_queue, of_group, connection):
    connection.execute("select pgmq.drop_queue('orders'), sluice.drop_group('events', 'g')")
    assert of_queue("list", "--count") == "6\n"
    assert of_group("list", "--count") == "6\n"
    connection.execute("select pgq.drop_queue('events')")

    assert len(records(of_group("list"))) == 6
    assert of_group("redrive", "--all", "--into", "again") == "6 dead letters redriven\n"
    assert of_queue("purge", "--older-than", "0", "--yes") == "6 dead letters deleted\n"


@pytest.mark.parametrize(
    ("command_name", "options"),
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
@pytest.mark.parametrize("place", [["orders"], ["events", "--consumer", "g"]])
def test_contradicting_options_are_a_usage_error(connection, command, place, command_name, options):
    refused = command("dead-letters", command_name, *place, *options, code=2).stderr

    assert "Usage" in refused
    assert "Error" in refused
