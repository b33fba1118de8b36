"""The search page: all queues and dead letters for a text, what was searched, and what was left out."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest

from pgsluice.client import ShareGroup
from pgsluice.dashboard.pages import search as search_page

SECRET = "card-4111"


@pytest.fixture(autouse=True)
def long_budget(monkeypatch):
    """Time for all places, also on a busy machine; a test of the budget sets its own."""
    monkeypatch.setattr(search_page, "_BUDGET_S", 30.0)


@pytest.fixture
def shop(connection, work, logs):
    """Order 41003 in `orders` (2, 5 archived, 6 dead), `mails`, the dropped queue `old`, and a group and a consumer of `audit`."""
    for name in ("mails", "old", "orders"):
        work.create(name)
    work.send_batch("orders", [{"order": 41_000 + n, "card": SECRET} for n in range(1, 5)])
    work.archive("orders", work.send("orders", {"note": "Order 41003 <b>"}))
    work.send("orders", {"order": 41_003, "again": True})
    connection.execute(
        'update pgmq.q_orders set headers = \'{"x-pgmq-group": "ann"}\' where msg_id = 1'
    )
    _reject(connection, "orders", 6)
    work.send("mails", "about order 41003")
    work.send("old", {"order": 41_003})
    _reject(connection, "old", 1)
    work.drop_queue("old")
    logs.create("audit")
    ShareGroup(connection, "audit", "mailer").create()
    for consumer, data in (("mailer", '{"order": 41003}'), ("gone", f"order=41003&card={SECRET}")):
        connection.execute(
            "insert into sluice.dead_letter (queue_name, consumer_name, msg_id, read_ct, enqueued_at, ev_txid, ev_type, ev_data, "
            "reason, error) values ('audit', %s, 77, 1, now(), '3', 't', %s, 'rejected', 'E: <i>')",
            (consumer, data),
        )
    return "orders"


def _reject(connection, queue, msg_id):
    connection.execute(
        "select sluice.reject(%s, %s, r.read_ct, 'bad') from pgmq.read(%s, 0, 10) as r where r.msg_id = %s",
        (queue, msg_id, queue, msg_id),
    )


def find(client, text, **query):
    """Return the links of what was found, and the answer."""
    answer = client.get(f"/search?{urlencode({'text': text, **query})}")
    return [
        each.replace("&amp;", "&")
        for each in re.findall(r'<th scope="row"><a href="/([^"]+)"', answer.text)
    ], answer


def plain(answer):
    """Return the text of a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


EVERYWHERE = [
    "message?queue=mails&msg_id=1",
    "dead-letters?queue=old&dead_letter_id=2",
    "message?queue=orders&msg_id=6",
    "message?queue=orders&msg_id=5",
    "message?queue=orders&msg_id=3",
    "dead-letters?queue=audit&consumer=gone&dead_letter_id=4",
    "dead-letters?queue=audit&consumer=mailer&dead_letter_id=3",
]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("41003", EVERYWHERE),
        ("ORDER 41003", [EVERYWHERE[0], EVERYWHERE[3]]),
        ('{"order": 41003}', [EVERYWHERE[n] for n in (1, 2, 4, 6)]),
        ("ann", ["message?queue=orders&msg_id=1"]),
        ("6", ["message?queue=orders&msg_id=6"]),
        ("77", EVERYWHERE[-2:]),
        ("nowhere", []),
    ],
)
def test_text_is_found_wherever_it_is(client, shop, text, wanted):
    links, answer = find(client, text)

    assert answer.status_code == 200
    assert links == wanted
    for link in links:
        assert client.get(f"/{link}").status_code == 200
    assert "<b>" not in answer.text
    assert "<i>" not in answer.text


def test_page_lists_places_and_their_messages_searched(client, shop):
    _, answer = find(client, "nowhere")

    text = plain(answer)
    assert "orders 6 messages of queue, archive and dead letters, all of them 0" in text
    assert "mails 1 message of queue, archive and dead letters, all of them" in text
    assert "old (dropped) all dead letters 0" in text
    assert "mailer of log audit all dead letters 0" in text
    assert "gone of log audit all dead letters 0" in text
    assert "Nothing was found in what was searched." in text
    assert "not searched" not in text


def test_rest_of_a_long_queue_is_linked(client, shop, monkeypatch):
    monkeypatch.setattr(search_page, "_SCAN", 2)

    links, answer = find(client, "41001")

    assert links == []
    assert "orders 2 messages of queue, archive and dead letters, the newest" in plain(answer)
    rest = re.search(r'<a href="([^"]+)">search them</a>', answer.text)[1].replace("&amp;", "&")
    assert rest == "/messages?queue=orders&matching=41001&after=5"
    assert "msg_id=1" in client.get(rest).text


def test_id_is_found_beyond_the_newest_messages(client, shop, monkeypatch):
    monkeypatch.setattr(search_page, "_SCAN", 1)

    assert find(client, "2")[0] == ["message?queue=orders&msg_id=2"]


def test_queues_that_were_not_reached_are_linked(client, shop, monkeypatch):
    monkeypatch.setattr(search_page, "_BUDGET_S", 0.0)
    links, answer = find(client, "41003")
    assert links == EVERYWHERE[:1]
    assert "Search the next 4" in plain(answer)

    pages = 1
    while following := re.search(r'<a href="([^"]+)" rel="next">', answer.text):
        answer = client.get("/search" + following[1].replace("&amp;", "&"))
        links += re.findall(
            r'<th scope="row"><a href="/([^"]+)"', answer.text.replace("&amp;", "&")
        )
        pages += 1

    assert (links, pages) == (EVERYWHERE, 5)
    assert "Search from the first queue" in plain(answer)


def test_payload_too_large_to_search_is_reported(client, connection, work):
    work.create("orders")
    connection.execute(
        "select pgmq.send('orders', to_jsonb((select string_agg(md5(n::text), '') from generate_series(1, 10000) as n)))"
    )
    _, answer = find(client, "nowhere")

    assert "1 payload of more than" in plain(answer)
    found, answer = find(client, "1")
    assert found == ["message?queue=orders&msg_id=1"]
    assert "large payload" in answer.text


def test_locked_queue_is_named_and_the_others_are_searched(client, connection, shop, monkeypatch):
    monkeypatch.setattr(search_page, "_BUDGET_S", 0.2)
    with connection.transaction():
        connection.execute("lock table pgmq.q_mails in access exclusive mode")
        _, answer = find(client, "41003")

    assert "mails : not searched in time" in plain(answer)
    rest = re.search(r'<a href="([^"]+)" rel="next">', answer.text)[1].replace("&amp;", "&")
    assert EVERYWHERE[2] in client.get("/search" + rest).text.replace("&amp;", "&")


def test_queue_that_the_role_may_not_read_is_named(opened, connection, database_18, as_role, shop):
    url = as_role(database_18, "sluice_reader")
    connection.execute("revoke all on pgmq.q_mails from sluice_reader")

    links, answer = find(opened(url), "41003")

    assert links == EVERYWHERE[1:]
    assert "What was not searched mails :" in plain(answer)


def test_search_by_a_monitor_names_the_missing_role(monitor, shop):
    links, answer = find(monitor, "41003")

    assert (links, answer.status_code) == ([], 200)
    assert "What was not searched mails : " in plain(answer)
    assert "sluice_reader" in answer.text


@pytest.mark.parametrize(
    ("options", "text", "wanted", "said"),
    [
        ({"hidden_keys": ["card"]}, SECRET, [], "Only msg_ids and keys were compared"),
        ({"hidden_keys": ["card"]}, SECRET[:3], [], "Only msg_ids and keys were compared"),
        ({"hidden_keys": ["card"]}, f'{{"card": "{SECRET}"}}', [], "Only msg_ids and keys"),
        ({"hidden_keys": ["card"]}, '{"order": 41003}', [EVERYWHERE[n] for n in (1, 2, 4, 6)], ""),
        ({"hidden_keys": ["card"]}, "ann", ["message?queue=orders&msg_id=1"], "Only msg_ids and"),
        ({"hidden_keys": ["x-pgmq-group"]}, "ann", [], "Nothing was searched."),
        (
            {"hidden_keys": ["x-pgmq-group"]},
            "6",
            ["message?queue=orders&msg_id=6"],
            "Only msg_ids were",
        ),
        ({"redact": lambda _name, value: value}, '{"order": 41003}', [], "Nothing was searched."),
        ({"redact": lambda _name, value: value}, "77", EVERYWHERE[-2:], "Only msg_ids were"),
    ],
)
def test_search_tells_no_hidden_value(opened, shop, options, text, wanted, said):
    links, answer = find(opened(**options), text)

    assert (links, answer.status_code) == (wanted, 200)
    assert said in answer.text
    assert ("This dashboard hides" in answer.text) == bool(said)
    assert "4111" not in answer.text.replace(text, "").replace(text.replace('"', "&#34;"), "")


def test_empty_search_searches_nothing(client, shop):
    links, answer = find(client, " ")

    assert (links, answer.status_code) == ([], 200)
    assert "What was searched" not in answer.text
    assert find(client, "a\x00")[1].status_code == 400


def test_every_page_has_the_search_box(client, shop):
    for path in ("/", "/queues", "/doctor"):
        assert '<form action="/search" class="find" role="search"' in client.get(path).text
