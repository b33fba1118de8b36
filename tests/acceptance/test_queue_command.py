"""`pgsluice queue`, as used by a shell script."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pgsluice import WorkQueue
from pgsluice.errors import ArgumentError
from support import rows, value


@pytest.fixture
def queue(database_18):
    def run(*arguments: str, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", "from pgsluice.cli.main import main; main()", "queue", *arguments,
             "--dsn", database_18.url],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code, (
            f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    return run


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        yield connection


def test_archive_of_a_created_queue_is_kept_for_seven_days_unless_given(queue, connection):
    queue("create", "orders")
    queue("create", "audit", "--archive-retention", "forever")
    queue("create", "orders", "--archive-retention", "1h")

    kept = "select queue_name, archive_retention::text from sluice.queue_options()"
    assert rows(connection, kept) == [("audit", None), ("orders", "7 days")]


def test_a_message_goes_in_and_out_and_is_acknowledged(queue, connection):
    queue("create", "orders")
    assert queue("send", "orders", '{"n": 1}', '"größe"', "null").stdout == "1\n2\n3\n"

    messages = [
        json.loads(line) for line in queue("read", "orders", "--qty", "5").stdout.splitlines()
    ]

    assert [(m["msg_id"], m["read_ct"], m["message"]) for m in messages] == [
        (1, 1, {"n": 1}),
        (2, 1, "größe"),
        (3, 1, None),
    ]
    assert queue("read", "orders").stdout == ""
    assert queue("archive", "orders", "1", "2").stdout == "1\n2\n"
    assert queue("delete", "orders", "3").stdout == "3\n"
    assert rows(connection, "select msg_id from pgmq.a_orders order by 1") == [(1,), (2,)]


def test_a_message_is_sent_with_its_key_priority_headers_and_delay(queue, connection):
    queue("create", "orders")

    queue(
        "send",
        "orders",
        "1",
        "--key",
        "ann",
        "--priority",
        "2",
        "--headers",
        '{"h": 1}',
        "--delay",
        "1h",
    )
    queue("send", "orders", "2", "3", "--key", "")

    assert rows(
        connection, "select headers, vt > clock_timestamp() from pgmq.q_orders order by msg_id"
    ) == [
        ({"h": 1, "x-pgmq-group": "ann", "x-pgmq-priority": 2}, True),
        ({"x-pgmq-group": ""}, False),
        ({"x-pgmq-group": ""}, False),
    ]
    refused = queue(
        "send", "orders", "1", "--key", "a", "--headers", '{"x-pgmq-group": "b"}', code=2
    )
    assert "key and the header 'x-pgmq-group' differ" in refused.stderr


def test_a_duplicate_is_not_sent_and_the_first_id_is_printed(queue):
    queue("create", "orders")
    queue("set", "orders", "deduplication_window=1h")
    keyed = ("--deduplication-key", "order 1")

    assert queue("send", "orders", "1", *keyed).stdout == "1\n"
    assert queue("send", "orders", "2", *keyed).stdout == "1\n"
    for messages in ((), ("1", "2")):
        refused = queue("send", "orders", *messages, *keyed, code=2)
        assert "--deduplication-key needs one message as argument" in refused.stderr


def test_messages_are_cancelled_and_the_action_is_recorded(queue, connection):
    queue("create", "orders")
    queue("send", "orders", "1", "2", "3")
    queue("read", "orders")

    assert queue("cancel", "orders", "1", "2", "9", code=1).stdout == "1\n2\n"

    assert rows(connection, "select msg_id from pgmq.q_orders") == [(3,)]
    assert value(connection, "select count(*) from pgmq.a_orders") == 0
    assert rows(
        connection, "select action, filter, message_count from sluice.list_actions('orders')"
    ) == [("delete", {"msg_ids": [1, 2]}, 2)]
    assert queue("cancel", "orders", "1", code=1).stdout == ""


@pytest.mark.slow
def test_waiting_messages_are_retried_now_or_after_a_delay_and_the_act_is_recorded(
    queue, connection
):
    queue("create", "orders")
    queue("send", "orders", "1", "2", "--delay", "1h")
    visible = "select msg_id, vt <= clock_timestamp() from pgmq.q_orders order by 1"

    assert queue("retry", "orders", "2", "9", code=1).stdout == "2\n"
    assert rows(connection, visible) == [(1, False), (2, True)]
    assert queue("retry", "orders", "1", "2", "--delay", "10m").stdout == "1\n2\n"
    assert rows(connection, visible) == [(1, False), (2, False)]

    assert rows(
        connection, "select action, filter, message_count from sluice.list_actions('orders')"
    ) == [
        ("set_vt", {"msg_ids": [1, 2], "vt": 600}, 2),
        ("set_vt", {"msg_ids": [2], "vt": 0}, 1),
    ]
    assert "give one of: ids, --key" in queue("retry", "orders", code=2).stderr


def test_retry_is_recorded_in_its_transaction_and_only_if_a_message_was_found(queue, connection):
    queue("create", "orders")
    queue("send", "orders", "1", "--delay", "1h")
    assert "not found" in queue("retry", "orders", "9", code=1).stderr
    assert rows(connection, "select action from sluice.list_actions('orders')") == []

    connection.execute("alter table sluice.action add check (action <> 'set_vt')")
    queue("retry", "orders", "1", code=3)
    assert rows(connection, "select vt <= clock_timestamp() from pgmq.q_orders") == [(False,)]


def test_lines_of_standard_input_are_sent_in_their_order(queue, connection):
    queue("create", "orders")
    lines = "".join(f'{{"n": {n}}}\n' for n in range(2500))

    ids = queue(
        "send", "orders", "--headers", '{"h": 1}', "--delay", "60", stdin=lines
    ).stdout.split()

    assert ids == [str(n) for n in range(1, 2501)]
    assert (
        value(
            connection,
            "select bool_and((message ->> 'n')::int = msg_id - 1 and headers = '{\"h\": 1}' and vt > now()) from pgmq.q_orders",
        )
        is True
    )


@pytest.mark.slow
def test_a_line_that_is_no_json_is_named_and_what_was_sent_before_is_counted(queue, connection):
    queue("create", "orders")
    lines = "1\n" * 1500 + "{not json\n" + "1\n" * 10

    done = queue("send", "orders", stdin=lines, code=3)

    assert "message 1501 is not JSON" in done.stderr
    assert "'{not json'" in done.stderr
    assert "messages already sent: 1000" in done.stderr
    assert value(connection, "select count(*) from pgmq.q_orders") == 1000


@pytest.mark.slow
def test_missing_queue_is_named_with_exit_code_1(queue):
    queue("create", "orders")

    assert "not found in the queue: 7" in queue("archive", "orders", "7", code=1).stderr
    assert "not found in the queue: 7, 9" in queue("delete", "orders", "9", "7", code=1).stderr
    assert "queue 'missing' does not exist" in queue("drop", "missing", "--yes", code=1).stderr


def test_an_unknown_queue_is_an_error_with_a_hint(queue):
    assert (
        "queue 'missing' does not exist; create it with: pgsluice queue create missing"
        in queue("read", "missing", code=3).stderr
    )


@pytest.mark.slow
def test_pop_list_delete_all_and_drop(queue, connection):
    queue("create", "orders")
    queue("send", "orders", "1", "2", "3")

    assert json.loads(queue("pop", "orders").stdout)["message"] == 1
    queue("create", "other")
    (metrics,) = json.loads(queue("list", "ORDERS", "--json").stdout)
    assert (metrics["queue_name"], metrics["queue_length"], metrics["total_messages"]) == (
        "orders",
        2,
        3,
    )
    assert "oldest_msg_age_sec" in queue("list").stdout
    queue("drop", "other", "--yes")
    assert queue("delete", "orders", "--all", "--yes").stdout == "2\n"
    assert [q["queue_name"] for q in json.loads(queue("list", "--json").stdout)] == ["orders"]
    queue("drop", "orders", "--yes")
    assert queue("list").stdout == "no queues\n"
    assert value(connection, "select to_regclass('pgmq.q_orders')") is None


@pytest.mark.slow
@pytest.mark.parametrize("headers", ["[1]", "1", '"text"', "null", "true"])
def test_headers_that_are_no_json_object_are_refused_and_nothing_is_sent(
    queue, connection, headers
):
    queue("create", "orders")

    failed = queue("send", "orders", "{}", "--headers", headers, code=2)

    assert "the value is not a JSON object" in failed.stderr
    assert queue("read", "orders").stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize("headers", [[1], "text", 1])
def test_client_refuses_headers_that_are_no_dict(connection, queue, headers):
    queue("create", "orders")

    with pytest.raises(ArgumentError, match="headers.* use a dict"):
        WorkQueue(connection).send("orders", {}, headers=headers)
    with pytest.raises(ArgumentError, match=r"headers\[0\].* use a dict"):
        WorkQueue(connection).send_batch("orders", [{}], headers=[headers])
