"""`pgsluice queue`: browse, follow, archive, replay and topics, on a real server."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from psycopg.conninfo import make_conninfo

from pgsluice import Archive, FailedMessage, Reject, Retry, WorkQueue
from pgsluice.cli.main import main
from pgsluice.cli.queue_tail import GAPS_MAX, Follower
from support import rows, value, wait_until


@pytest.fixture
def queue(database_18, capsys, monkeypatch):
    """Run a command; return its standard output, and on request its standard error."""

    def run(*arguments, stdin="", code=0, errors=False):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main(["queue", *arguments, "--dsn", database_18.url])
        printed = capsys.readouterr()
        assert ended.value.code == code, f"{arguments}: {ended.value.code}\n{printed}"
        return printed.err if errors else printed.out

    return run


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        yield connection


@pytest.fixture
def orders(connection):
    """The queue `orders`: 1 to 3 archived, 4 dead, 5 in flight, 6 delayed, 7 visible."""
    connection.execute("select pgmq.create('orders'), pgmq.create('again')")
    connection.execute(
        "select pgmq.send_batch('orders', array_agg(jsonb_build_object('n', n, 'odd', n % 2 = 1)), "
        "array_agg(jsonb_build_object('h', n))) from generate_series(1, 7) as n"
    )
    connection.execute("select pgmq.archive('orders', array[1, 2, 3]::bigint[])")
    connection.execute("select pgmq.read('orders', 600, 2)")
    connection.execute("select sluice.reject('orders', 4, 1, 'bad', 'trace')")
    connection.execute("select pgmq.set_vt('orders', 6, 600)")
    return connection


LISTS = ("partitions", "exports", "streams", "replays", "handlers", "blocked_keys")


def records(printed):
    return [json.loads(line) for line in printed.splitlines()]


def ids(printed):
    return [record["msg_id"] for record in records(printed)]


def test_browse_shows_messages_and_claims_none(queue, orders):
    (first,) = records(queue("browse", "orders", "--qty", "1"))
    assert (first["msg_id"], first["state"], first["message"], first["headers"]) == (
        5, "in flight", {"n": 5, "odd": True}, {"h": 5},
    )  # fmt: skip
    assert ids(queue("browse", "orders", "--qty", "9", "--after", "5", "--json")) == [6, 7]
    assert value(orders, "select sum(read_ct) from pgmq.q_orders") == 1


def test_browse_by_id_says_where_a_message_is_and_exits_1_when_it_is_nowhere(queue, orders):
    found = records(queue("browse", "orders", "1", "4", "7"))
    assert [(message["msg_id"], message["state"]) for message in found] == [
        (1, "archived"),
        (4, "dead"),
        (7, "visible"),
    ]
    assert "not found in the queue, archive or dead letters: 99" in queue(
        "browse", "orders", "1", "99", code=1, errors=True
    )
    for option in (
        ["--in", "queue"],
        ["--after", "1"],
        ["--qty", "1"],
        ["--count"],
        ["--since", "2026-01-01"],
    ):
        assert "ids and a filter are mutually exclusive" in queue(
            "browse", "orders", "1", *option, code=2, errors=True
        )


def test_browse_and_count_agree_on_what_a_filter_matches(queue, orders):
    now = datetime.now(UTC)
    for arguments, wanted in (
        ([], [5, 6, 7]),
        (["--in", "archive"], [1, 2, 3]),
        (["--in", "dead-letters"], [4]),
        (["--in", "all"], [1, 2, 3, 4, 5, 6, 7]),
        (["--in", "all", "--matching", '"ODD": true'], [1, 3, 5, 7]),
        (["--in", "all", "--matching", '{"n": 4}'], [4]),
        (["--matching", "7"], [7]),
        (["--in", "archive", "--conditional", '{"odd": true}'], [1, 3]),
        (["--in", "archive", "--conditional-headers", '{"h": 2}'], [2]),
        (["--in", "archive", "--since", (now + timedelta(hours=1)).isoformat()], []),
        # A time without a zone is local.
        (["--in", "archive", "--since", "2026-01-01", "--until", "2126-01-01T10:00"], [1, 2, 3]),
    ):
        assert ids(queue("browse", "orders", *arguments)) == wanted
        assert queue("browse", "orders", "--count", *arguments) == f"{len(wanted)}\n"
    assert ids(queue("browse", "orders", "--after", "5", "--qty", "1")) == [6]


def test_browse_goes_on_from_page_to_page(queue, orders):
    orders.execute("select pgmq.send_batch('again', array_fill('1'::jsonb, array[2500]))")

    assert ids(queue("browse", "again")) == list(range(1, 2501))
    assert ids(queue("browse", "again", "--qty", "1001")) == list(range(1, 1002))


def test_usage_error_is_exit_code_2_and_failure_is_3(queue, orders):
    assert "'soon' is not a valid time" in queue(
        "browse", "orders", "--since", "soon", code=2, errors=True
    )
    assert "give one of: ids, " in queue("replay", "orders", code=2, errors=True)
    assert "give one of: ids, " in queue("replay", "orders", "1", "--all", code=2, errors=True)
    assert "the value is not JSON" in queue(
        "browse", "orders", "--conditional", "{", code=2, errors=True
    )
    for arguments in (["browse", "nope"], ["tail", "nope"], ["show", "nope"]):
        assert "queue 'nope' does not exist; create it with: pgsluice queue create nope" in queue(
            *arguments, code=3, errors=True
        )
    assert "queue 'nope' does not exist; create it with" in queue(
        "replay", "orders", "1", "--into", "nope", code=3, errors=True
    )


def test_exports_are_shown_and_dropped(queue, orders):
    assert "no exports\n" in queue("show", "orders")
    orders.execute("select sluice.create_export('orders', 'lake', '/lake', 'id')")

    (export,) = json.loads(queue("show", "ORDERS", "--json"))["exports"]

    assert (export["export_name"], export["lake"], export["kept"]) == ("lake", "/lake", 0)
    assert "no exports\n" in queue("show", "again")
    assert queue("drop-export", "orders", "lake", "--yes") == ""
    assert "no exports\n" in queue("show", "orders")
    assert "has no export 'lake'" in queue(
        "drop-export", "orders", "lake", "--yes", code=1, errors=True
    )


def test_streams_are_shown_and_given_up(queue, orders):
    assert "no streams\n" in queue("show", "orders")
    stream = value(orders, "select stream_id from sluice.queue_stream_start('lake', 'orders')")
    orders.execute("select sluice.queue_stream_claim(%s, 0, 9)", [stream])

    (shown,) = json.loads(queue("show", "orders", "--json"))["streams"]

    assert (shown["stream_name"], shown["queue_name"], shown["claimed_messages"]) == ("lake", "orders", 1)  # fmt: skip
    assert queue("release-stream", "lake") == "1 message released\n"
    assert "stream 'lake' does not exist" in queue("release-stream", "lake", code=1, errors=True)
    assert [m["msg_id"] for m in records(queue("read", "orders"))] == [7]


@pytest.mark.parametrize(
    ("role", "length", "unreadable"),
    [
        ("sluice_reader", 3, []),
        ("sluice_monitor", 3, ["replays", "blocked_keys"]),
        (
            "sluice_writer",
            None,
            ["partitions", "exports", "streams", "replays", "handlers", "blocked_keys"],
        ),
    ],
)
def test_role_is_shown_what_it_may_read(
    orders, database_18, monkeypatch, capsys, role, length, unreadable
):
    dsn = make_conninfo(database_18.url, options=f"-c role={role}")

    def pgsluice(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--dsn", dsn])
        assert not ended.value.code
        return capsys.readouterr().out

    listed = json.loads(pgsluice("queue", "list", "orders", "--json"))
    shown = json.loads(pgsluice("queue", "show", "orders", "--json"))

    assert [queue["queue_length"] for queue in listed] == [length]
    assert [name for name, found in shown.items() if name in LISTS and found is None] == unreadable
    assert (
        "blocked keys: this role may not read them\n" in pgsluice("queue", "show", "orders")
    ) == ("blocked_keys" in unreadable)


def test_archived_messages_are_replayed_by_id(queue, orders):
    printed = queue("replay", "orders", "3", "1", "--into", "again")

    assert records(printed) == [
        {"archived_msg_id": 1, "msg_id": 1},
        {"archived_msg_id": 3, "msg_id": 2},
    ]
    assert "not found in the archive: 99" in queue("replay", "orders", "99", code=1, errors=True)


def test_archived_messages_are_replayed_by_a_filter_in_steps(queue, orders):
    orders.execute(
        "insert into pgmq.a_orders (msg_id, vt, message) "
        "select n, now(), '{\"odd\": true}' from generate_series(1001, 3500) as n"
    )

    printed = queue("replay", "orders", "--conditional", '{"odd": true}', "--into", "again", "--json")  # fmt: skip

    assert json.loads(printed) == {"replay_id": 1, "replayed": 2502}
    assert value(orders, "select count(*) from pgmq.q_again") == 2502
    assert json.loads(queue("show", "orders", "--json"))["replays"][0]["replayed"] == 2502
    assert queue("replay", "orders", "--all") == "2503 messages replayed\n"


def test_progress_is_shown_on_a_terminal_and_beside_the_output(queue, orders, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert queue("replay", "orders", "--all", errors=True) == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    assert "3/3" in queue("replay", "orders", "--all", errors=True)
    assert json.loads(queue("replay", "orders", "--all", "--json"))["replayed"] == 3


def test_an_interrupted_replay_is_continued(queue, orders, monkeypatch):
    orders.execute(
        "insert into pgmq.a_orders (msg_id, vt) select n, now() from generate_series(1001, 2500) as n"
    )
    step = Archive.continue_replay

    def interrupted(self, replay_id, **options):
        if value(orders, "select replayed from sluice.list_replays()"):
            raise KeyboardInterrupt
        return step(self, replay_id, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Archive, "continue_replay", interrupted)
        output = queue("replay", "orders", "--all", "--into", "again", code=130, errors=True)

    assert "replay 1 belongs to queue 'orders'" in queue(
        "replay", "again", "--continue", "1", code=2, errors=True
    )
    assert "mutually exclusive" in queue(
        "replay", "orders", "--continue", "1", "--into", "orders", code=2, errors=True
    )
    assert "replay 9 does not exist" in queue(
        "replay", "orders", "--continue", "9", code=2, errors=True
    )
    found = re.search(
        r"replayed 1000 messages; continue with: pgsluice queue (replay orders --continue 1)",
        output,
    )
    assert found
    assert json.loads(queue(*found[1].split(), "--json")) == {"replay_id": 1, "replayed": 1503}
    assert value(orders, "select count(distinct headers) from pgmq.q_again") == 1503


def test_topics_are_bound_listed_tested_sent_to_and_unbound(queue, orders):
    queue("topics", "bind", "logs.*", "orders")
    queue("topics", "bind", "#", "again")
    (shown,) = json.loads(queue("topics", "list", "orders", "--json"))
    assert (shown["pattern"], shown["queue_name"]) == ("logs.*", "orders")
    assert "[^.]+" in queue("topics", "list")
    matches = json.loads(queue("topics", "list", "--matching", "logs.a", "--json"))
    assert [match["queue_name"] for match in matches] == ["again", "orders"]
    (match,) = json.loads(queue("topics", "list", "orders", "--matching", "logs.a", "--json"))
    assert match == shown

    sent = records(queue("topics", "send", "logs.a", '{"n": 1}', "2", "--headers", '{"h": 1}'))
    assert sent == [
        {"queue_name": "again", "msg_id": 1},
        {"queue_name": "again", "msg_id": 2},
        {"queue_name": "orders", "msg_id": 8},
        {"queue_name": "orders", "msg_id": 9},
    ]
    assert ids(queue("topics", "send", "other", stdin='"a"\n\n"b"\n')) == [3, 4]
    assert rows(orders, "select message, headers from pgmq.q_orders where msg_id = 8") == [
        ({"n": 1}, {"h": 1})
    ]

    queue("topics", "unbind", "#", "again")
    assert "is not bound" in queue("topics", "unbind", "#", "again", code=1, errors=True)
    assert queue("topics", "list", "--matching", "other", code=1) == "no bindings\n"
    assert "no queue is bound to 'other'" in queue(
        "topics", "send", "other", "1", code=1, errors=True
    )
    assert "message 2 is not JSON" in queue(
        "topics", "send", "logs.a", "1", "{", code=3, errors=True
    )


def test_every_command_takes_json(queue, orders):
    assert records(queue("send", "again", "1", "--json")) == [1]
    assert ids(queue("read", "again", "--json")) == [1]
    assert records(queue("archive", "again", "1", "--json")) == [1]
    assert records(queue("delete", "orders", "7", "--json")) == [7]
    assert records(queue("pop", "again", "--json")) == []
    assert records(queue("delete", "orders", "--all", "--yes", "--json")) == [2]
    assert queue("create", "third", "--json") == ""
    assert queue("drop", "third", "--yes", "--json") == ""
    assert records(queue("browse", "orders", "--in", "archive", "--count", "--json")) == [3]
    assert ids(queue("tail", "orders", "--after", "0", "--until-empty", "--json")) == []


def test_tail_prints_existing_messages_and_stops_on_a_signal(queue, orders):
    assert ids(queue("tail", "orders", "--after", "0", "--until-empty")) == [5, 6, 7]
    assert ids(queue("tail", "orders", "--after", "5", "--until-empty")) == [6, 7]
    assert queue("tail", "orders", "--until-empty") == ""
    orders.execute("select pgmq.send_batch('again', array_fill('1'::jsonb, array[2500]))")
    assert ids(queue("tail", "again", "--after", "0", "--until-empty")) == list(range(1, 2501))
    assert value(orders, "select sum(read_ct) from pgmq.q_orders") == 1


@pytest.mark.slow
def test_tail_prints_each_message_once_also_one_that_commits_late_and_ends_on_ctrl_c(
    database_18, orders
):
    with (
        database_18.connect(autocommit=False) as before,
        database_18.connect(autocommit=False) as late,
    ):
        before.execute("select pgmq.send('orders', '\"before\"'::jsonb)")
        process = subprocess.Popen(
            [sys.executable, "-c", "from pgsluice.cli.main import main; main()", "queue", "tail", "orders",
             "--poll-interval", "0.02", "--dsn", database_18.url],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            follows = (
                "select exists (select from pg_stat_activity where pid <> pg_backend_pid() "
                "and datname = current_database() and query like '%sluice.browse%')"
            )
            wait_until(lambda: value(orders, follows), "the first poll")
            late.execute("select pgmq.send('orders', '\"late\"'::jsonb)")
            orders.execute("select pgmq.send('orders', '\"early\"'::jsonb)")
            found = [json.loads(process.stdout.readline())]
            late.commit()
            found.append(json.loads(process.stdout.readline()))
            before.commit()
            found.append(json.loads(process.stdout.readline()))
            orders.execute("select pgmq.send('orders', '\"last\"'::jsonb)")
            found.append(json.loads(process.stdout.readline()))
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=30)
        finally:
            process.kill()
            process.wait()

    assert [(message["msg_id"], message["message"]) for message in found] == [
        (10, "early"),
        (9, "late"),
        (8, "before"),
        (11, "last"),
    ]
    assert (rest, process.returncode) == ("", 0)


def test_follow_finds_messages_committed_late_until_a_deadline(database_18, orders):
    now = [0.0]

    def poll():
        return [(message.msg_id, message.state) for message in follower.poll()]

    with (
        database_18.connect(autocommit=False) as first,
        database_18.connect(autocommit=False) as second,
    ):
        follower = Follower(WorkQueue(orders), "again", None, 60, clock=lambda: now[0])
        first.execute("select pgmq.send('again', '1'::jsonb)")
        second.execute("select pgmq.send('again', '2'::jsonb)")
        orders.execute("select pgmq.send('again', '3'::jsonb)")
        assert poll() == [(3, "visible")]
        assert poll() == []

        now[0] = 59
        first.execute("select pgmq.archive('again', 1)")
        first.commit()
        assert poll() == [(1, "archived")]
        assert poll() == []

        now[0] = 61
        assert poll() == []
        second.commit()
        assert poll() == []


def test_a_leap_of_ids_is_looked_for_in_part(orders):
    follower = Follower(WorkQueue(orders), "again", 0, 60)
    orders.execute("select setval('pgmq.q_again_msg_id_seq', 1000000000)")
    orders.execute("select pgmq.send('again', '1'::jsonb)")

    assert [message.msg_id for message in follower.poll()] == [1_000_000_001]
    assert len(follower._gaps) == GAPS_MAX
    assert follower.poll() == []


def test_get_and_failing_show_the_error_of_a_message_that_waits_for_its_retry(queue, connection):
    connection.execute("select pgmq.create('orders')")
    work = WorkQueue(connection)
    work.send_batch("orders", [1, 2, 3])
    first, second, third = work.read("orders", 30, 3)
    work.fail("orders", [FailedMessage(first, Retry(60), "ValueError", "row 1 is bad", "at 1")])
    work.fail("orders", [FailedMessage(second, Retry(60), "ValueError", "row 2 is bad")])
    work.fail("orders", [FailedMessage(third, Reject("odd"), "ValueError", "no")])

    waiting, dead = records(queue("browse", "orders", "1", "3"))
    assert (waiting["state"], waiting["attempts"]) == ("retrying", 1)
    assert (waiting["error_type"], waiting["error"], waiting["trace"]) == (
        "ValueError", "row 1 is bad", "at 1",
    )  # fmt: skip
    assert waiting["next_retry_at"] > waiting["last_failed_at"]
    assert (dead["state"], dead["attempts"], dead["error"]) == ("dead", 1, "no")

    (group,) = json.loads(queue("failing", "orders", "--json"))
    assert (group["error"], group["messages"], group["example_msg_id"]) == ("row # is bad", 2, 2)
    assert json.loads(queue("failing", "--json")) == [group]
    assert "row # is bad" in queue("failing")
    work.delete_batch("orders", [1, 2])
    assert queue("failing") == "no failing messages\n"


def test_browse_by_id_works_with_an_older_schema(queue, connection):
    connection.execute("drop function sluice.list_attempts(text, bigint[])")
    connection.execute("select pgmq.create('orders'), pgmq.send('orders', '1')")

    (found,) = records(queue("browse", "orders", "1"))

    assert found["state"] == "visible"
