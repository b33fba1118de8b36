"""Every method of the work queue clients: sync and async, pool and connection, both backends.

The backends are functions and tables: see `mode` in conftest.py.
"""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from psycopg.rows import dict_row

from pgsluice import Message, QueueInfo, QueueMetrics
from pgsluice.client.json_values import DEPTH_MAX
from pgsluice.errors import ArgumentError, PayloadError, QueueNameError, QueueNotFoundError
from support import on_functions_and_tables, rows, value, wait_until

WEBHOOKS = Path(__file__).parents[2].parent / "shared" / "data" / "github-webhooks.jsonl.gz"
SOON = timedelta(seconds=30)

pytestmark = on_functions_and_tables


def test_a_queue_is_created_once_and_dropped_once(clients, queue_name):
    other = f"{queue_name}_other"

    assert clients.queue.create(other) in (None, True)  # TableQueue returns nothing
    assert clients.queue.create(other) in (None, False)
    assert clients.queue.send(other, "kept") == 1
    assert clients.queue.drop_queue(other) is True
    assert clients.queue.drop_queue(other) is False


def test_all_queues_are_listed_and_measured_by_name(make, own_url):
    queue = make.pool(own_url).queue
    assert queue.list_queues() == []
    assert queue.metrics_all() == []
    for name in ("b", "A", "c"):
        queue.create(name)
    queue.send_batch("c", [1, 2])

    listed, measured = queue.list_queues(), queue.metrics_all()

    assert all(type(record) is QueueInfo for record in listed)
    assert [record.queue_name for record in listed] == ["A", "b", "c"]
    assert {(record.is_partitioned, record.is_unlogged) for record in listed} == {(False, False)}
    assert abs(datetime.now(UTC) - listed[0].created_at) < SOON
    assert all(type(record) is QueueMetrics for record in measured)
    assert {record.queue_name: record.queue_length for record in measured} == {
        "A": 0,
        "b": 0,
        "c": 2,
    }


def test_sent_message_is_read_with_all_its_fields(clients, queue_name):
    before = datetime.now(UTC)

    assert clients.queue.send(queue_name, {"n": [1, None, 2.5]}, headers={"h": "é"}) == 1
    assert clients.queue.send(queue_name, None) == 2
    first, second = clients.queue.read(queue_name, 60, 5)

    assert type(first) is Message
    assert (first.msg_id, first.read_ct) == (1, 1)
    assert (first.message, first.headers) == ({"n": [1, None, 2.5]}, {"h": "é"})
    assert before - SOON < first.enqueued_at <= first.last_read_at < before + SOON
    assert first.vt == first.last_read_at + timedelta(seconds=60)
    assert (second.msg_id, second.message, second.headers) == (2, None, None)


@pytest.mark.slow
def test_a_claimed_message_is_hidden_until_its_timeout_ends(clients, queue_name):
    clients.queue.send(queue_name, 1)

    assert [m.read_ct for m in clients.queue.read(queue_name, 0)] == [1]
    assert [m.read_ct for m in clients.queue.read(queue_name, 1)] == [2]
    assert clients.queue.read(queue_name, 1) == []
    again = []
    wait_until(
        lambda: bool(again.extend(clients.queue.read(queue_name, 60)) or again),
        "the message to be visible again",
    )
    assert [m.read_ct for m in again] == [3]


def test_a_read_returns_at_most_qty_messages_lowest_id_first(clients, queue_name):
    clients.queue.send_batch(queue_name, list(range(7)))

    assert [m.msg_id for m in clients.queue.read(queue_name, 60)] == [1]
    assert [m.msg_id for m in clients.queue.read(queue_name, 60, 4)] == [2, 3, 4, 5]
    assert [m.msg_id for m in clients.queue.read(queue_name, 60, qty=9)] == [6, 7]


def test_a_conditional_read_takes_only_messages_that_contain_it(clients, queue_name):
    clients.queue.send_batch(queue_name, [{"k": "a"}, {"k": "b", "n": 1}, {"k": "b"}])

    claimed = clients.queue.read(queue_name, 60, 9, conditional={"k": "b"})

    assert [m.msg_id for m in claimed] == [2, 3]


@pytest.mark.parametrize("form", ["seconds", "time"])
def test_a_delayed_message_is_hidden_until_then(clients, queue_name, observer, form):
    delay = 60 if form == "seconds" else datetime.now(UTC) + timedelta(seconds=60)

    clients.queue.send(queue_name, "later", delay=delay)
    clients.queue.send_batch(queue_name, ["later", "later"], delay=delay)

    assert clients.queue.read(queue_name, 60, 9) == []
    hidden = rows(
        observer,
        f"select extract(epoch from vt - clock_timestamp()) between 30 and 61 from pgmq.q_{queue_name}",
    )
    assert hidden == [(True,)] * 3


def test_a_batch_is_sent_in_order_with_its_headers(clients, queue_name):
    ids = clients.queue.send_batch(queue_name, ["a", None, "c"], headers=[{"n": 1}, {"n": 2}, None])

    assert ids == [1, 2, 3]
    stored = clients.queue.read(queue_name, 60, 9)
    assert [(m.message, m.headers) for m in stored] == [
        ("a", {"n": 1}),
        (None, {"n": 2}),
        ("c", None),
    ]


def test_a_popped_message_is_gone_at_once(clients, queue_name):
    clients.queue.send_batch(queue_name, list("abc"))

    assert [m.message for m in clients.queue.pop(queue_name)] == ["a"]
    assert [m.message for m in clients.queue.pop(queue_name, 5)] == ["b", "c"]
    assert clients.queue.pop(queue_name) == []


def test_a_deleted_message_is_gone_and_not_in_the_archive(clients, queue_name, observer):
    clients.queue.send_batch(queue_name, list("abcd"))

    assert clients.queue.delete(queue_name, 1) is True
    assert clients.queue.delete(queue_name, 1) is False
    assert clients.queue.delete_batch(queue_name, [3, 99, 2, 3]) == [2, 3]
    assert clients.queue.delete_batch(queue_name, []) == []
    assert rows(observer, f"select msg_id from pgmq.q_{queue_name}") == [(4,)]
    assert value(observer, f"select count(*) from pgmq.a_{queue_name}") == 0


def test_an_archived_message_is_in_the_archive_alone(clients, queue_name, observer):
    clients.queue.send_batch(queue_name, list("abcd"))

    assert clients.queue.archive(queue_name, 1) is True
    assert clients.queue.archive(queue_name, 1) is False
    assert clients.queue.archive_batch(queue_name, (3, 99, 2, 3)) == [2, 3]
    assert clients.queue.archive_batch(queue_name, []) == []
    assert rows(observer, f"select msg_id from pgmq.q_{queue_name}") == [(4,)]
    archived = f"select msg_id, message from pgmq.a_{queue_name} order by 1"
    assert rows(observer, archived) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_timeout_can_be_set_in_seconds_and_as_a_time(clients, queue_name):
    clients.queue.send_batch(queue_name, list("abc"))
    then = datetime.now(UTC) + timedelta(hours=1)

    assert clients.queue.set_vt(queue_name, 1, then).vt == then
    changed = clients.queue.set_vt(queue_name, 2, 60)
    assert (changed.msg_id, changed.read_ct, changed.message) == (2, 0, "b")
    assert abs(changed.vt - datetime.now(UTC) - timedelta(seconds=60)) < SOON
    assert clients.queue.set_vt(queue_name, 99, 60) is None
    assert [m.msg_id for m in clients.queue.set_vt_batch(queue_name, [3, 1, 99, 3], then)] == [1, 3]
    assert clients.queue.set_vt_batch(queue_name, [], 0) == []
    assert clients.queue.read(queue_name, 60, 9) == []
    assert [m.msg_id for m in clients.queue.set_vt_batch(queue_name, [3, 2], 0)] == [2, 3]
    assert [m.msg_id for m in clients.queue.read(queue_name, 60, 9)] == [2, 3]


def test_a_purged_queue_is_empty_and_its_archive_is_not(clients, queue_name, observer):
    clients.queue.send_batch(queue_name, list("abc"))
    clients.queue.archive(queue_name, 1)
    clients.queue.read(queue_name, 60)

    assert clients.queue.purge_queue(queue_name) == 2
    assert clients.queue.purge_queue(queue_name) == 0
    assert value(observer, f"select count(*) from pgmq.a_{queue_name}") == 1


def test_metrics_count_what_is_there_and_what_a_read_would_find(clients, queue_name):
    clients.queue.send_batch(queue_name, list("abc"))
    clients.queue.read(queue_name, 60, 2)
    clients.queue.delete(queue_name, 1)

    metrics = clients.queue.metrics(queue_name)

    assert type(metrics) is QueueMetrics
    assert (metrics.queue_name, metrics.queue_length, metrics.total_messages) == (queue_name, 2, 3)
    assert metrics.queue_visible_length == 1
    assert 0 <= metrics.newest_msg_age_sec <= metrics.oldest_msg_age_sec <= 30
    assert abs(datetime.now(UTC) - metrics.scrape_time) < SOON
    assert metrics.default_partition_length is None


UNKNOWN = [
    ("send", [1]),
    ("send_batch", [[1]]),
    ("read", [30]),
    ("pop", []),
    ("delete", [1]),
    ("delete_batch", [[1]]),
    ("archive", [1]),
    ("archive_batch", [[1]]),
    ("set_vt", [1, 1]),
    ("set_vt_batch", [[1], 1]),
    ("purge_queue", []),
    ("metrics", []),
]


@pytest.mark.parametrize(("method", "arguments"), UNKNOWN, ids=[name for name, _ in UNKNOWN])
def test_a_queue_that_does_not_exist_is_named_with_a_hint(clients, method, arguments):
    with pytest.raises(QueueNotFoundError) as caught:
        getattr(clients.queue, method)("nope", *arguments)

    assert str(caught.value) == "queue 'nope' does not exist; create it with create('nope')"
    assert caught.value.sqlstate == "42P01"
    assert caught.value.__cause__.sqlstate == "42P01"


@pytest.mark.parametrize("bad", ["", "new\nline"])
def test_a_name_that_cannot_be_used_is_refused(clients, bad):
    with pytest.raises(QueueNameError):
        clients.queue.create(bad)


def test_a_name_that_would_share_a_table_is_refused_and_the_other_is_named(clients, queue_name):
    with pytest.raises(QueueNameError, match=f"'{queue_name}'"):
        clients.queue.create(queue_name.upper())
    with pytest.raises(QueueNameError, match=f"'{queue_name}'"):
        clients.queue.drop_queue(queue_name.upper())

    assert clients.queue.metrics(queue_name).queue_length == 0


def test_negative_quantities_are_refused_before_anything_is_sent(clients, queue_name):
    clients.queue.send(queue_name, 1)

    for call in (
        lambda: clients.queue.read(queue_name, -1),
        lambda: clients.queue.read(queue_name, 30, -1),
        lambda: clients.queue.pop(queue_name, -1),
        lambda: clients.queue.send(queue_name, 2, delay=-1),
        lambda: clients.queue.set_vt(queue_name, 1, -1),
    ):
        with pytest.raises(ArgumentError):
            call()

    (message,) = clients.queue.read(queue_name, 30, 9)
    assert message.read_ct == 1


def test_an_id_beyond_64_bits_is_an_argument_out_of_range(clients, queue_name):
    with pytest.raises(ArgumentError):
        clients.queue.archive(queue_name, 2**63)


def test_a_batch_with_one_bad_message_sends_none(clients, queue_name):
    with pytest.raises(PayloadError, match=r"messages\[1\]"):
        clients.queue.send_batch(queue_name, ["good", float("nan"), "good"])

    assert clients.queue.metrics(queue_name).total_messages == 0


def test_the_deepest_message_that_is_accepted_is_stored_and_read_back(clients, queue_name):
    deep = 0
    for _ in range(DEPTH_MAX // 2):
        deep = {"k": [deep]}

    clients.queue.send(queue_name, deep)

    assert clients.queue.pop(queue_name)[0].message == deep


def test_the_row_factory_of_the_callers_connection_does_not_matter(make, shared_url, queue_name):
    clients = make.connection(shared_url, autocommit=True, row_factory=dict_row)

    assert clients.queue.send(queue_name, "x") == 1
    assert clients.queue.read(queue_name, 60)[0].message == "x"


@pytest.mark.skipif(
    not WEBHOOKS.exists(), reason=f"the real payloads are not on this machine: {WEBHOOKS}"
)
def test_real_payloads_come_back_as_they_were_sent(clients, queue_name):
    with gzip.open(WEBHOOKS, "rt", encoding="utf-8") as lines:
        payloads = [json.loads(line) for line in lines]
    assert len(payloads) == 502

    ids = clients.queue.send_batch(
        queue_name, payloads, headers=[{"event": payload["event"]} for payload in payloads]
    )
    messages = clients.queue.read(queue_name, 60, len(payloads))

    assert ids == list(range(1, 503))
    assert [m.message for m in messages] == payloads
    assert [m.headers["event"] for m in messages] == [payload["event"] for payload in payloads]
