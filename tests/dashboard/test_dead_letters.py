"""The pages of dead letters: by error, listed, one with its trace, and exported."""

from __future__ import annotations

import json
import re

import pytest

from pgsluice.dashboard.pages import dead_letters as dead_letters_page


@pytest.fixture
def letters(connection, work):
    """Dead letters 1 to 5 of `orders`: 1, 2 and 5 of one error, 3 of another, 4 of none."""
    work.create("orders")
    for number, (reason, error_type, error) in enumerate(
        (
            ("too many attempts", "KeyError", "'user-1'"),
            ("too many attempts", "KeyError", "'user-2'"),
            ("too many attempts", "ValueError", "<b>row 3</b>"),
            ("<i>rejected</i>", None, None),
            ("too many attempts", "KeyError", "'user-5'"),
        ),
        1,
    ):
        connection.execute(
            "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, headers, reason, error_type, error, "
            "trace, worker, attempts, dead_at) values ('orders', %s, 3, '2026-01-01 00:00+00', %s, %s, %s, %s, %s, %s, 'w', 3, "
            "'2026-01-01 00:00+00'::timestamptz + make_interval(days => %s))",
            (
                number * 10,
                json.dumps({"n": number, "card": "card-4111", "text": "<script>"}),
                '{"x-pgmq-group": "k"}',
                reason,
                error_type,
                error,
                "Traceback <module>",
                number,
            ),
        )
    return "/dead-letters?queue=orders"


def listed(text):
    """Return the ids in the list."""
    return [int(each) for each in re.findall(r'<th scope="row"><a [^>]+>(\d+)', text)]


def test_dead_letters_are_grouped_by_error(client, letters):
    text = client.get(letters).text

    assert "5 dead letters" in text
    assert text.index("<strong>KeyError</strong> #") < text.index("&lt;b&gt;row #&lt;/b&gt;")
    assert "&lt;i&gt;rejected&lt;/i&gt;" in text
    assert "<b>row" not in text
    assert "<i>rejected" not in text
    assert listed(text) == [5, 4, 3, 2, 1]


def test_link_of_a_group_lists_its_members(client, letters):
    links = re.findall(r'<td class="text"><a href="([^"]+group=1[^"]+)"', client.get(letters).text)

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
        ("&before=3", [2, 1]),
    ],
)
def test_filter_selects_dead_letters(client, letters, query, wanted):
    assert listed(client.get(letters + query).text) == wanted


def test_actions_keep_the_filter_and_spare_later_dead_letters(acting, letters):
    text = acting.get(letters).text

    until = "until=2026-01-06T00%3A00%3A00.000001%2B00%3A00"
    for act in ("redrive", "purge_dead_letters"):
        assert (
            f"/act/{act}?queue=orders&amp;reason=too+many+attempts&amp;error_type=KeyError&amp;error=%23&amp;{until}"
            in text
        )
        assert f"/act/{act}?queue=orders&amp;{until}" in text
    later = acting.get(f"{letters}&since=2026-01-03T00:00").text
    assert (
        f"/act/redrive?queue=orders&amp;since=2026-01-03T00%3A00%3A00%2B00%3A00&amp;{until}"
        in later
    )


def test_pages_follow_each_other(client, letters, monkeypatch):
    monkeypatch.setattr(dead_letters_page, "_PAGE", 2)
    answer = client.get(letters)
    seen = listed(answer.text)
    while link := re.search(r'<a href="([^"]+)" rel="next">', answer.text):
        answer = client.get("/dead-letters" + link[1].replace("&amp;", "&"))
        seen += listed(answer.text)

    assert seen == [5, 4, 3, 2, 1]


def test_end_of_a_bounded_search_is_shown(client, letters, monkeypatch):
    monkeypatch.setattr(dead_letters_page, "_SCAN", 2)

    text = client.get(f"{letters}&error_type=ValueError").text

    assert listed(text) == []
    assert "down to 4" in text
    assert "No dead letter matches" not in text


def test_dead_letter_is_shown_with_its_trace(acting, letters):
    text = acting.get(f"{letters}&dead_letter_id=3").text

    assert "Traceback &lt;module&gt;" in text
    assert "&#34;text&#34;: &#34;&lt;script&gt;&#34;" in text
    assert "/act/redrive?queue=orders&amp;dead_letter_id=3" in text
    whole = acting.get(f"{letters}&dead_letter_id=3&download=message")
    assert whole.json() == {"n": 3, "card": "card-4111", "text": "<script>"}
    assert "attachment" in whole.headers["content-disposition"]
    assert acting.get(f"{letters}&dead_letter_id=77").status_code == 404
    assert acting.get("/dead-letters?queue=other&dead_letter_id=3").status_code == 404


def test_export_has_one_line_for_each(client, letters, monkeypatch):
    monkeypatch.setattr(dead_letters_page, "_EXPORT_PAGE", 2)
    link = letters.replace("?", "/export?")

    answer = client.get(link)

    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [each["dead_letter_id"] for each in lines] == [5, 4, 3, 2, 1]
    assert lines[2]["error"] == "<b>row 3</b>"
    assert lines[2]["message"]["n"] == 3
    assert lines[2]["dead_at"] == "2026-01-04T00:00:00+00:00"
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    filtered = client.get(f"{link}&error_type=KeyError").text.splitlines()
    assert [json.loads(line)["dead_letter_id"] for line in filtered] == [5, 2, 1]
    monkeypatch.setattr(dead_letters_page, "_EXPORTED", 3)
    assert len(client.get(link).text.splitlines()) == 3
    assert client.get(f"{link}&since=x").status_code == 400


def test_values_of_hidden_keys_are_hidden_everywhere(opened, letters):
    careful = opened(hidden_keys=["card"])

    for page in (
        f"{letters}&dead_letter_id=3",
        f"{letters}&dead_letter_id=3&download=message",
        letters.replace("?", "/export?"),
    ):
        assert "card-4111" not in careful.get(page).text


def test_queues_with_dead_letters_are_listed(client, letters):
    assert "/dead-letters?queue=orders" in client.get("/dead-letters").text


def test_queue_without_dead_letters_has_an_empty_state(client, work):
    work.create("calm")

    assert "This queue has no dead letters." in client.get("/dead-letters?queue=calm").text


def test_dead_letters_of_a_dropped_queue_are_shown(client, work, letters):
    work.drop_queue("orders")

    assert listed(client.get(letters).text) == [5, 4, 3, 2, 1]


def test_page_for_a_monitor_names_the_role_it_needs(monitor, letters):
    for page, status in (
        (letters, 200),
        (f"{letters}&dead_letter_id=3", 200),
        (letters.replace("?", "/export?"), 403),
    ):
        answer = monitor.get(page)
        assert (answer.status_code, "sluice_reader" in answer.text) == (status, True)
        assert "KeyError" not in answer.text
