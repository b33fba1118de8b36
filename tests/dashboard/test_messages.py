"""The page of messages: by state, filtered, in pages of a bounded search."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest

from pgsluice.dashboard.pages import messages as messages_page
from support.dashboard import unlabelled


@pytest.fixture
def orders(work):
    """The queue `orders`: 1 archived, 2 in flight, 3 delayed, 4 to 6 visible; 4 and 5 have keys."""
    work.create("orders")
    work.send_batch(
        "orders",
        [{"n": n, "text": "<script>"} for n in range(1, 7)],
        headers=[{"x-pgmq-group": {4: "a", 5: "<b>"}.get(n, "c")} for n in range(1, 7)],
    )
    work.archive("orders", 1)
    work.read("orders", 600, 1)
    work.set_vt("orders", 3, 600)
    return "orders"


def shown(client, **query):
    """Return the ids in the table of the page, and its text."""
    answer = client.get(f"/messages?{urlencode({'queue': 'orders', **query})}")
    return [
        int(each) for each in re.findall(r'<th scope="row"><a [^>]+>(\d+)', answer.text)
    ], answer


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, [6, 5, 4, 3, 2, 1]),
        ({"order": "oldest"}, [1, 2, 3, 4, 5, 6]),
        ({"state": "visible"}, [6, 5, 4]),
        ({"state": "in flight"}, [2]),
        ({"state": "delayed"}, [3]),
        ({"state": "archived"}, [1]),
        ({"state": "dead"}, []),
        ({"state": "unknown"}, [6, 5, 4, 3, 2, 1]),
        ({"msg_id": "1"}, [1]),
        ({"msg_id": " 5 "}, [5]),
        ({"msg_id": "99"}, []),
        ({"key": "<b>"}, [5]),
        ({"matching": '{"n": 4}'}, [4]),
        ({"matching": '"N": 4'}, [4]),
        ({"matching": "<B>"}, [5]),
        ({"matching": "<SCRIPT>", "state": "archived"}, [1]),
        ({"matching": "1"}, [1]),
        ({"matching": "[1]"}, []),
        ({"matching": "{x"}, []),
        ({"since": "2020-01-01T00:00"}, [6, 5, 4, 3, 2, 1]),
        ({"until": "2020-01-01T00:00"}, []),
    ],
)
def test_messages_are_selected(client, orders, query, wanted):
    ids, answer = shown(client, **query)

    assert (ids, answer.status_code) == (wanted, 200)
    assert "<script>" not in answer.text.replace("<script src", "")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"msg_id": "first"}, "The msg_id is a whole number"),
        ({"msg_id": "9" * 20}, "The msg_id is a whole number"),
        ({"since": "yesterday"}, "The start is a time"),
        ({"key": "a\x00b"}, "key has a character"),
        ({"scan": "all"}, "The number of messages to look at is a whole number"),
        ({"after": "x"}, "The place to continue is a whole number"),
    ],
)
def test_invalid_filter_is_explained(client, orders, query, said):
    ids, answer = shown(client, **query)

    assert (ids, answer.status_code) == ([], 400)
    assert said in answer.text


def follow(client, answer):
    """Follow the link to the next page."""
    link = re.search(r'<a href="([^"]+)" rel="next">', answer.text)
    if link is None:
        return None
    return client.get("/messages" + link[1].replace("&amp;", "&"))


def test_pages_follow_each_other(client, orders, monkeypatch):
    monkeypatch.setattr(messages_page, "_PAGE", 2)
    for query, wanted in (({}, [6, 5, 4, 3, 2, 1]), ({"state": "in flight"}, [2])):
        seen, answer = shown(client, **query)
        while answer := follow(client, answer):
            seen += [int(n) for n in re.findall(r'<th scope="row"><a [^>]+>(\d+)', answer.text)]
        assert seen == wanted


def test_bounded_search_is_continued_where_it_ended(client, orders, monkeypatch):
    monkeypatch.setattr(messages_page, "_SCAN", 2)
    ids, answer = shown(client, matching='{"n": 4}')

    assert ids == []
    assert "up to msg_id 5" in answer.text
    assert "Continue the search" in answer.text
    assert "No message matches" not in answer.text
    assert ">4</a>" in follow(client, answer).text


def test_empty_queue_names_the_next_command(client, work):
    work.create("orders")

    assert "pgsluice queue send orders" in shown(client)[1].text
    assert "The archive is empty" in shown(client, state="archived")[1].text


def test_values_of_hidden_keys_are_hidden(opened, orders):
    careful = opened(hidden_keys=["text", "x-pgmq-group"])

    _, answer = shown(careful)

    assert "•••" in answer.text
    assert "&lt;script&gt;" not in answer.text
    assert "<td>c</td>" not in unlabelled(answer.text)


@pytest.mark.parametrize(
    ("options", "query", "wanted"),
    [
        ({"hidden_keys": ["text"]}, {"matching": "script"}, None),
        ({"hidden_keys": ["text"]}, {"matching": '{"Text": "<script>"}'}, None),
        ({"hidden_keys": ["text"]}, {"matching": '[{"a": {"text": {}}}]'}, None),
        ({"hidden_keys": ["text"]}, {"matching": '{"text": "•••"}'}, None),
        ({"hidden_keys": ["text"]}, {"matching": '{"n": NaN}'}, None),
        ({"hidden_keys": ["text"]}, {"matching": '{"n": 4}'}, [4]),
        ({"hidden_keys": ["text"]}, {"key": "a"}, [4]),
        ({"hidden_keys": ["X-pgmq-group"]}, {"key": "a"}, None),
        ({"redact": lambda _name, value: value}, {"matching": '{"n": 4}'}, None),
        ({"redact": lambda _name, value: value}, {"key": "a"}, None),
    ],
)
def test_search_tells_no_hidden_value(opened, orders, options, query, wanted):
    ids, answer = shown(opened(**options), **query)

    assert (ids, answer.status_code) == (wanted or [], 200 if wanted else 400)
    assert ("This dashboard hides" in answer.text) == (wanted is None)


def test_messages_of_all_places_are_listed_in_one_order(client, connection, orders):
    connection.execute(
        "select sluice.reject('orders', 4, read_ct, 'bad') from pgmq.read('orders', 600, 1)"
    )

    ids, answer = shown(client)

    assert ids == [6, 5, 4, 3, 2, 1]
    states = re.findall(r'<span class="badge [a-z]*">([a-z ]+)</span>', answer.text)
    assert states == ["visible", "visible", "dead", "delayed", "in flight", "archived"]
    assert shown(client, state="dead")[0] == [4]


def test_only_messages_in_the_queue_can_be_selected(opened, connection, orders):
    connection.execute(
        "select sluice.reject('orders', 4, read_ct, 'bad') from pgmq.read('orders', 600, 1)"
    )
    acting = opened(allow_actions=True)

    selectable = re.findall(r'name="msg_id" value="(\d+)"', shown(acting)[1].text)
    assert selectable == ["6", "5", "3", "2"]
    for state, ids in (("dead", [4]), ("archived", [1])):
        found, answer = shown(acting, state=state)
        assert (found, 'id="bulk"' in answer.text) == (ids, False)


def test_large_payloads_are_not_listed(client, work):
    work.create("orders")
    work.send("orders", {"a": [str(n * 7919) for n in range(20_000)]})

    _, answer = shown(client, matching='{"a": ["7919"]}')

    assert "large payload" in answer.text
    assert "searched by msg_id" not in answer.text
    assert "158" not in re.sub("<[^>]+>", "", answer.text)


def test_payload_too_large_to_search_is_counted(client, work, monkeypatch):
    monkeypatch.setattr(messages_page, "_SEARCHED_BYTES", 1000)
    work.create("orders")
    work.send("orders", {"a": [str(n * 7919) for n in range(20_000)]}, headers={"h": "needle"})

    for text, wanted, counted in (("7919", [], True), ("needle", [1], False)):
        ids, answer = shown(client, matching=text)
        assert ids == wanted
        assert (
            "1 payloads of more than 1000 bytes were searched by msg_id" in answer.text
        ) == counted


def test_monitor_sees_messages_without_payloads(monitor, orders):
    ids, answer = shown(monitor)

    assert ids == [6, 5, 4, 3, 2, 1]
    assert "Payloads and keys are hidden" in answer.text
    assert "&lt;script&gt;" not in answer.text
    assert shown(monitor, state="archived")[0] == [1]
    for query in ({"key": "a"}, {"matching": "{}"}, {"msg_id": "4"}):
        _, answer = shown(monitor, **query)
        assert (answer.status_code, "sluice_reader" in answer.text) == (200, True)


def test_slow_search_asks_for_a_narrower_filter(opened, connection, orders):
    impatient = opened(timeout_s=0.2)
    with connection.transaction():
        connection.execute("lock table pgmq.q_orders in access exclusive mode")
        _, answer = shown(impatient)

    assert "narrow your filter" in answer.text
    assert "scan=1000" in answer.text
    assert shown(impatient, scan="1000")[0] == [6, 5, 4, 3, 2, 1]


def test_missing_queue_is_not_found(client):
    assert client.get("/messages?queue=missing").status_code == 404
    assert client.get("/messages").status_code == 404
