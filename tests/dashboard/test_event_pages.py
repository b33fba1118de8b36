"""The pages of events: browsing by id and time, and one event with its explanation and data."""

from __future__ import annotations

import pytest

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def audit(logs):
    """The log `audit` with 120 events, 60 per tick."""
    logs.create("audit")
    logs.register_consumer("audit", "etl")
    for start in (1, 61):
        for number in range(start, start + 60):
            logs.insert_event("audit", "paid", f'{{"n": {number}, "price": 1.10}}')
        logs.log_tick("audit")
    return logs


def ids(text):
    """The ids of the listed events."""
    return [
        int(line.split("</a>")[0].rsplit(">", 1)[1])
        for line in text.splitlines()
        if line.startswith('<th scope="row"')
    ]


def link(text, label):
    """The path of a link."""
    (line,) = [each for each in text.replace("<a ", "\n<a ").splitlines() if f">{label}<" in each]
    return line.split('href="')[1].split('"')[0].replace("&amp;", "&")


def test_newest_events_are_shown_first_and_paged_both_ways(client, audit):
    newest = client.get("/events?log=audit").text
    older = client.get(link(newest, "Older events")).text
    oldest = client.get(link(older, "Older events")).text

    assert ids(newest) == [*range(120, 70, -1)]
    assert ids(older) == [*range(70, 20, -1)]
    assert ids(oldest) == [*range(20, 0, -1)]
    assert "Older events" not in oldest
    assert ids(client.get(link(oldest, "Newer events")).text) == ids(older)
    assert "Newer events" not in newest


def test_events_from_an_id_are_shown(client, audit):
    text = client.get("/events?log=audit&ev_id=30").text

    assert ids(text) == [*range(79, 29, -1)]
    assert ids(client.get(link(text, "Older events")).text) == [*range(29, 0, -1)]


def test_events_from_a_time_are_those_after_the_last_tick_before_it(client, audit, connection):
    (at,) = connection.execute("select tick_time from pgq.tick where tick_id = 2").fetchone()

    text = client.get("/events", params={"log": "audit", "at": at.isoformat()}).text

    assert ids(text)[-1] == 61
    assert "No events here" in client.get("/events?log=audit&at=2100-01-01").text
    assert ids(client.get("/events?log=audit&at=2000-01-01 10:00").text)[-1] == 1


def test_invalid_and_missing_places_are_named(client, audit):
    assert client.get("/events?log=audit&at=yesterday").status_code == 400
    assert client.get("/events?log=audit&ev_id=x").status_code == 400
    assert client.get("/events?log=none").status_code == 404
    assert "does not have event 500," in client.get("/events?log=audit&ev_id=500").text


def test_event_is_explained_and_its_data_is_exact(client, audit):
    data = '{"id": 12345678901234567890, "price": 1.10, "text": "\\u0000 \\ud800"}'
    audit.insert_event("audit", "paid", data, ev_extra1="plain <b>")

    text = client.get("/event?log=audit&ev_id=121").text
    stored = client.get("/event?log=audit&ev_id=121&as=stored").text

    assert "No tick covers it yet" in text
    assert "12345678901234567890" in text
    assert "&#34;price&#34;: 1.10" in text
    assert "plain &lt;b&gt;" in text
    assert data.replace('"', "&#34;") in stored


def test_long_data_is_cut_and_downloaded_whole(client, audit):
    data = '"' + "ü" * 1_000_000 + '"'
    audit.insert_event("audit", "t", data)

    listed = client.get("/events?log=audit").text
    shown = client.get("/event?log=audit&ev_id=121").text
    file = client.get("/event?log=audit&ev_id=121&download=ev_data")

    assert len(listed) < 100_000
    assert "1953 kB" in listed
    assert len(shown) < 100_000
    assert "of 1\u202f000\u202f002 characters" in shown
    assert file.text == data
    assert file.headers["content-disposition"].startswith("attachment")
    assert file.headers["content-type"] == "text/plain; charset=utf-8"
    assert client.get("/event?log=audit&ev_id=121&download=ev_id").status_code == 404


def test_scripts_in_names_and_data_are_escaped(client, logs):
    logs.create(SCRIPT)
    logs.insert_event(SCRIPT, SCRIPT, f'{{"{SCRIPT}": "{SCRIPT}"}}', ev_extra1=SCRIPT)

    for path in ("/events", "/event"):
        text = client.get(path, params={"log": SCRIPT, "ev_id": 1}).text
        assert "&lt;script&gt;" in text
        assert "<script>alert" not in text


@pytest.mark.parametrize(
    "data",
    [
        '{"card": "471108154711", "n": 1}',
        '{"a": [{"Card": {"x": "471108154711"}}]}',
        "n=1&card=471108154711",
        '{"n": 1, "card": "471108154711", "long": "' + "x" * 5000 + '"}',
    ],
)
def test_hidden_keys_are_hidden_in_lists_details_and_files(opened, logs, data):
    logs.create("audit")
    logs.insert_event("audit", "t", data, ev_extra2=data)
    client = opened(hidden_keys=["card"])

    for path in ("/events?log=audit", "/event?log=audit&ev_id=1"):
        assert "471108154711" not in client.get(path).text
    for field in ("ev_data", "ev_extra2"):
        file = client.get(f"/event?log=audit&ev_id=1&download={field}")
        assert "•••" in file.text
        assert "471108154711" not in file.text


def test_hook_gets_data_as_json_or_text(opened, logs):
    logs.create("audit")
    logs.insert_event("audit", "t", '{"n": 471108154711}')
    logs.insert_event("audit", "t", "text 471108154711")
    client = opened(redact=lambda name, value: f"{name} {type(value).__name__}")

    text = client.get("/events?log=audit").text

    assert "audit dict" in text
    assert "audit str" in text
    assert "471108154711" not in text


def test_role_with_sluice_monitor_sees_explanations_without_contents(monitor, audit):
    listed = monitor.get("/events?log=audit").text
    shown = monitor.get("/event?log=audit&ev_id=1").text

    assert "sluice_reader" in listed
    assert "Event 1 is in log audit" in shown
    assert "The contents are hidden" in shown
    assert "price" not in listed + shown
    assert monitor.get("/event?log=audit&ev_id=1&download=ev_data").status_code == 404
