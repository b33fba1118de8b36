"""The pages of dead letters: by error, listed, one with its trace, and exported."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

import pytest

from pgsluice import FailedEvent
from pgsluice.client import DeadLetters, ShareGroup
from pgsluice.dashboard.pages import dead_letters as dead_letters_page
from support.dashboard import unlabelled

PAYLOAD = {"card": "card-4111", "text": "<script>"}
ERRORS = (
    ("too many attempts", "KeyError", "'user-1'"),
    ("too many attempts", "KeyError", "'user-2'"),
    ("too many attempts", "ValueError", "<b>row 3</b>"),
    ("<i>rejected</i>", None, None),
    ("too many attempts", "KeyError", "'user-5'"),
)


@dataclass(frozen=True)
class Letters:
    """The page of dead letters of a queue or share group.

    Attributes:
        page: Its address.
        place: The arguments of its links, escaped.
        drop: Statement that drops their queue, or their share group and log.
    """

    page: str
    place: str
    drop: str

    @property
    def is_of_group(self):
        return "consumer" in self.place

    def contents(self, number):
        """Return a payload, as it is downloaded."""
        message = {"n": number, **PAYLOAD}
        if not self.is_of_group:
            return message
        return {
            "ev_type": "t",
            "ev_data": json.dumps(message),
            "ev_extra1": '{"card": "card-4111"}',
        }


OF_QUEUE = Letters("/dead-letters?queue=orders", "queue=orders", "select pgmq.drop_queue('orders')")
OF_GROUP = Letters(
    "/dead-letters?queue=orders&consumer=mailer",
    "queue=orders&amp;consumer=mailer",
    "select sluice.drop_group('orders', 'mailer'), pgq.drop_queue('orders')",
)


@pytest.fixture(params=[OF_QUEUE, OF_GROUP], ids=["queue", "group"])
def letters(request, connection, work, logs):
    """Dead letters 1 to 5 of a queue or group: 1, 2 and 5 of one error, 3 of another, 4 of none."""
    letters = request.param
    if letters.is_of_group:
        logs.create("orders")
        ShareGroup(connection, "orders", "mailer").create()
    else:
        work.create("orders")
    for number, (reason, error_type, error) in enumerate(ERRORS, 1):
        contents = letters.contents(number)
        message, headers = (
            (None, None) if letters.is_of_group else (json.dumps(contents), '{"x-pgmq-group": "k"}')
        )
        event = contents if letters.is_of_group else {}
        connection.execute(
            "insert into sluice.dead_letter (queue_name, consumer_name, msg_id, read_ct, enqueued_at, message, headers, "
            "ev_txid, ev_type, ev_data, ev_extra1, reason, error_type, error, trace, worker, attempts, dead_at) "
            "values ('orders', %s, %s, 3, '2026-01-01 00:00+00', %s, %s, '3', %s, %s, %s, %s, %s, %s, %s, 'w', 3, "
            "'2026-01-01 00:00+00'::timestamptz + make_interval(days => %s))",
            (
                "mailer" if letters.is_of_group else None,
                number * 10,
                message,
                headers,
                *(event.get(name) for name in ("ev_type", "ev_data", "ev_extra1")),
                reason,
                error_type,
                error,
                "Traceback <module>",
                number,
            ),
        )
    return letters


@pytest.fixture
def mailer(connection, logs):
    """A share group of the log `audit`, with events 1 to 4 rejected, of two errors, and event 5 claimed."""
    logs.create("audit")
    group = ShareGroup(connection, "audit", "mailer")
    group.create()
    for number in range(5):
        logs.insert_event("audit", "t", f"{number}")
    logs.log_tick("audit")
    events = group.claim(5)
    group.reject(events[:3], "rejected", error="E1: a\ntrace 1")
    group.reject(events[3], "rejected", error="E2: <b>")
    return group


def listed(text):
    """Return the ids in the list."""
    return [int(each) for each in re.findall(r'<th scope="row"><a [^>]+>(\d+)', text)]


def test_dead_letters_are_grouped_by_error(client, letters):
    text = client.get(letters.page).text

    assert "5 dead letters" in text
    assert text.index("<strong>KeyError</strong> #") < text.index("&lt;b&gt;row #&lt;/b&gt;")
    assert "&lt;i&gt;rejected&lt;/i&gt;" in text
    assert "<b>row" not in text
    assert "<i>rejected" not in text
    assert listed(text) == [5, 4, 3, 2, 1]


def test_link_of_a_group_lists_its_members(client, letters):
    links = re.findall(
        r'<td class="text"><a href="([^"]+group=1[^"]+)"', unlabelled(client.get(letters.page).text)
    )

    members = [listed(client.get(link.replace("&amp;", "&")).text) for link in links]

    assert members == [[5, 2, 1], [4], [3]]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("&reason=too+many+attempts", [5, 3, 2, 1]),
        ("&error_type=ValueError", [3]),
        ("&reason=&error_type=&error=", [5, 4, 3, 2, 1]),
        ("&since=2026-01-03T00:00&until=2026-01-05T00:00", [3, 2]),
        ("&reason=missing", []),
        ("&matching=CARD-4111", [5, 4, 3, 2, 1]),
        ("&matching=30", [3]),
        ("&matching=%22n%22%3A+2", [2]),
        ("&matching=%7B%22n%22%3A+2%7D", [2]),
        ("&matching=%7B%22n%22%3A+2%7D&reason=rejected", []),
        ("&before=3", [2, 1]),
    ],
)
def test_filter_selects_dead_letters(client, letters, query, wanted):
    assert listed(client.get(letters.page + query).text) == wanted


def test_actions_keep_the_filter_and_spare_later_dead_letters(acting, letters):
    text = acting.get(letters.page).text

    until = "until=2026-01-06T00%3A00%3A00.000001%2B00%3A00"
    for act in ("redrive", "purge_dead_letters"):
        assert (
            f"/act/{act}?{letters.place}&amp;reason=too+many+attempts&amp;error_type=KeyError&amp;error=%23&amp;{until}"
            in text
        )
        assert f"/act/{act}?{letters.place}&amp;{until}" in text
    later = acting.get(f"{letters.page}&since=2026-01-03T00:00").text
    assert (
        f"/act/redrive?{letters.place}&amp;since=2026-01-03T00%3A00%3A00%2B00%3A00&amp;{until}"
        in later
    )


def test_pages_follow_each_other(client, letters, monkeypatch):
    monkeypatch.setattr(dead_letters_page, "_PAGE", 2)
    answer = client.get(letters.page)
    seen = listed(answer.text)
    while link := re.search(r'<a href="([^"]+)" rel="next">', answer.text):
        answer = client.get("/dead-letters" + link[1].replace("&amp;", "&"))
        seen += listed(answer.text)

    assert seen == [5, 4, 3, 2, 1]


def test_end_of_a_bounded_search_is_shown(client, letters, monkeypatch):
    monkeypatch.setattr(dead_letters_page, "_SCAN", 2)

    text = client.get(f"{letters.page}&error_type=ValueError").text

    assert listed(text) == []
    assert "down to 4" in text
    assert "No dead letter matches" not in text


def test_dead_letter_is_shown_with_its_trace(acting, letters):
    text = acting.get(f"{letters.page}&dead_letter_id=3").text

    assert "Traceback &lt;module&gt;" in text
    assert "&lt;script&gt;" in text
    assert "<script>" not in text
    assert f"/act/redrive?{letters.place}&amp;dead_letter_id=3" in text
    assert f"/act/purge_dead_letters?{letters.place}&amp;dead_letter_id=3" in text
    whole = acting.get(f"{letters.page}&dead_letter_id=3&download=message")
    assert whole.json() == letters.contents(3)
    assert "attachment" in whole.headers["content-disposition"]
    assert acting.get(f"{letters.page}&dead_letter_id=77").status_code == 404
    for other in ("queue=other", "queue=orders&consumer=other"):
        assert acting.get(f"/dead-letters?{other}&dead_letter_id=3").status_code == 404


def test_export_has_one_line_for_each(client, letters, monkeypatch):
    monkeypatch.setattr(dead_letters_page, "_EXPORT_PAGE", 2)
    link = letters.page.replace("?", "/export?")

    answer = client.get(link)

    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [each["dead_letter_id"] for each in lines] == [5, 4, 3, 2, 1]
    assert lines[2]["error"] == "<b>row 3</b>"
    contents = letters.contents(3)
    exported = lines[2] if letters.is_of_group else lines[2]["message"]
    assert {name: exported[name] for name in contents} == contents
    assert lines[2]["dead_at"] == "2026-01-04T00:00:00+00:00"
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    filtered = client.get(f"{link}&error_type=KeyError").text.splitlines()
    assert [json.loads(line)["dead_letter_id"] for line in filtered] == [5, 2, 1]
    monkeypatch.setattr(dead_letters_page, "_EXPORTED", 3)
    assert len(client.get(link).text.splitlines()) == 3
    assert client.get(f"{link}&since=x").status_code == 400
    matching = client.get(f"{link}&matching=20").text.splitlines()
    assert [json.loads(line)["dead_letter_id"] for line in matching] == [2]


def test_values_of_hidden_keys_are_hidden_everywhere(opened, letters):
    careful = opened(hidden_keys=["card"])

    for page in (
        f"{letters.page}&dead_letter_id=3",
        f"{letters.page}&dead_letter_id=3&download=message",
        letters.page.replace("?", "/export?"),
    ):
        text = careful.get(page).text
        assert "card-4111" not in text
        assert "script" in text, "other keys are shown"


def test_filter_tells_no_hidden_value(opened, letters):
    careful = opened(hidden_keys=["card"], allow_actions=True)
    acts = [
        f"/act/{act}?{letters.place.replace('&amp;', '&')}"
        for act in ("redrive", "purge_dead_letters")
    ]

    for page in (letters.page, letters.page.replace("?", "/export?"), *acts):
        for text in ("card-4111", '{"card": "card-4111"}'):
            answer = careful.get(
                page, params={**dict(parse_qsl(page.partition("?")[2])), "matching": text}
            )
            assert answer.status_code == 400
            assert "This dashboard hides" in answer.text
        allowed = {**dict(parse_qsl(page.partition("?")[2])), "matching": '{"n": 2}'}
        assert careful.get(page, params=allowed).status_code == 200


@pytest.mark.parametrize("letters", [OF_QUEUE], indirect=True)
def test_queues_with_dead_letters_are_listed(client, letters):
    assert "/dead-letters?queue=orders" in client.get("/dead-letters").text


def test_queue_and_group_without_dead_letters_have_an_empty_state(client, work, mailer):
    work.create("calm")
    mailer.create()

    for place, noun in (("queue=calm", "Messages"), ("queue=audit&consumer=other", "Events")):
        text = client.get(f"/dead-letters?{place}").text
        assert f"There are no dead letters. {noun} become dead letters after" in text


def test_dead_letters_of_a_dropped_queue_or_group_are_shown(client, connection, letters):
    connection.execute(letters.drop)

    assert f"{letters.page}&dead_letter_id=3".replace("&", "&amp;") in client.get(letters.page).text
    assert client.get(f"{letters.page}&dead_letter_id=3").status_code == 200
    assert listed(client.get(letters.page).text) == [5, 4, 3, 2, 1]


def test_page_for_a_monitor_names_the_role_it_needs(monitor, letters):
    for page, status in (
        (letters.page, 200),
        (f"{letters.page}&dead_letter_id=3", 200),
        (letters.page.replace("?", "/export?"), 403),
    ):
        answer = monitor.get(page)
        assert (answer.status_code, "sluice_reader" in answer.text) == (status, True)
        assert "KeyError" not in answer.text


def test_group_page_counts_dead_letters_by_error_and_links_to_them(client, mailer):
    text = unlabelled(client.get("/group?log=audit&group=mailer").text)

    rows_of_errors = re.findall(
        r'<td class="text">(E[^<]+)</td><td>rejected</td><td class="number">(\d+)</td>', text
    )
    assert rows_of_errors == [("E#: a", "3"), ("E#: &lt;b&gt;", "1")]
    (link,) = re.findall(r'href="(/dead-letters\?[^"]+)"', text)
    assert link == "/dead-letters?queue=audit&amp;consumer=mailer"
    assert listed(client.get(link.replace("&amp;", "&")).text) == [4, 3, 2, 1]


def test_dead_letters_of_a_group_link_to_their_events_and_print_their_command(client, logs, mailer):
    logs.insert_event("audit", "t", "6")
    mailer.reject(mailer.claim(1), "rejected", error="x" * 30_000)
    page = "/dead-letters?queue=audit&consumer=mailer"

    assert 'href="/event?log=audit&amp;ev_id=2"' in client.get(f"{page}&dead_letter_id=2").text
    assert (
        "pgsluice dead-letters list --consumer=mailer --after=4 --qty=1 audit"
        in client.get(f"{page}&dead_letter_id=5").text
    )


def test_dead_letter_of_a_consumer_is_shown(client, connection, mailer, logs):
    logs.register_consumer("audit", "etl")
    logs.insert_event("audit", "t", "7")
    logs.log_tick("audit")
    batch_id = logs.next_batch("audit", "etl")
    logs.reject_events(batch_id, [FailedEvent(6, "bad", "KeyError", "k", "at 1")])
    (letter,) = DeadLetters(connection, "audit", "etl").browse()

    page = "/dead-letters?queue=audit&consumer=etl"
    assert listed(client.get(page).text) == [letter.dead_letter_id]
    text = client.get(f"{page}&dead_letter_id={letter.dead_letter_id}").text
    assert "at 1" in text
    assert "1 attempt, delivered 1 time" in text
