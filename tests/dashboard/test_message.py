"""The page of a message: its timeline, attempts, and exact payload."""

from __future__ import annotations

import pytest

from pgsluice import FailedMessage

TRICKY = (
    '{"big": 123456789012345678901234567890, "price": 1.10, "text": "<script>alert(1)</script>", '
    '"escape": "\\\\ud800", "tab": "\\t"}'
)


@pytest.fixture
def sent(work, connection):
    """The message 1 of the queue `a/b <c>`, with numbers that floats cannot hold."""
    work.create("a/b <c>")
    connection.execute(
        'select pgmq.send(\'a/b <c>\', %s::jsonb, \'{"h": 2.50, "secret": "s3"}\'::jsonb)',
        (TRICKY,),
    )
    return "/message?queue=a/b+%3Cc%3E&msg_id=1"


def test_payload_and_headers_are_exact(client, sent):
    text = client.get(sent).text

    assert "&#34;big&#34;: 123456789012345678901234567890" in text
    assert "&#34;price&#34;: 1.10" in text
    assert "&#34;h&#34;: 2.50" in text
    assert "\\\\ud800" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert "<c>" not in text


def test_history_and_attempts_are_shown(acting, work, sent):
    (message,) = work.read("a/b <c>", 600, 1)
    failed = FailedMessage(message, error_type="KeyError", error="<i>7</i>", trace="line <1>")
    work.fail("a/b <c>", [failed], worker="w-1")

    text = acting.get(sent).text

    assert "<h3>Now</h3>" in text
    assert "retrying" in text
    assert "&lt;i&gt;7&lt;/i&gt;" in text
    assert "line &lt;1&gt;" in text
    assert "w-1" in text
    for act in ("retry_message", "archive_message", "delete_message"):
        assert f"/act/{act}?queue=a%2Fb+%3Cc%3E&amp;msg_id=1" in text


@pytest.mark.parametrize("result", ["1.10", "null"])
def test_kept_result_is_shown_also_if_its_message_was_deleted(
    client, connection, work, sent, result
):
    work.read("a/b <c>", 600, 1)
    finish = "select sluice.finish('a/b <c>', '{1}', '{1}', %s, '1 hour', false)"
    connection.execute(finish, [f"[{result}]"])

    text = client.get(sent).text

    assert "<h2>Result</h2>" in text
    assert f">{result}</pre>" in text
    assert "The kept result of its handler expires" in text


def test_dead_and_archived_messages_are_found(acting, work, sent):
    (message,) = work.read("a/b <c>", 600, 1)
    work.reject("a/b <c>", message.msg_id, message.read_ct, "bad", "trace")
    work.send("a/b <c>", 2)
    work.archive("a/b <c>", 2)

    dead = acting.get(sent).text
    assert "/act/redrive?queue=a%2Fb+%3Cc%3E&amp;dead_letter_id=1" in dead
    assert "/act/delete_message" not in dead
    archived = acting.get(sent.replace("msg_id=1", "msg_id=2")).text
    assert ">archived<" in archived
    assert "/act/" not in archived


def test_long_payload_is_cut_and_downloaded_whole(client, work, sent):
    work.send("a/b <c>", {"text": "é" * 30_000})

    page = client.get(sent.replace("msg_id=1", "msg_id=2")).text
    assert "The first 20\u202f000 characters. " in page
    assert "é" * 20_001 not in page
    whole = client.get(sent.replace("/message", "/message/payload").replace("msg_id=1", "msg_id=2"))
    assert whole.json() == {"text": "é" * 30_000}
    assert whole.headers["content-type"] == "application/json"
    assert whole.headers["content-disposition"] == 'attachment; filename="a_b_c_-2-message.json"'
    assert whole.headers["x-content-type-options"] == "nosniff"


def test_long_error_reason_and_traceback_are_cut_and_the_command_that_prints_them_is_named(
    client, work, sent
):
    text = "é" * 100_000
    (message,) = work.read("a/b <c>", 600, 1)
    work.fail("a/b <c>", [FailedMessage(message, error=text, trace=text)])
    work.send("a/b <c>", 2)
    work.set_vt("a/b <c>", 1, 0)
    for each in work.read("a/b <c>", 600, 2):
        if each.msg_id == 2:
            work.reject("a/b <c>", 2, each.read_ct, text, text)
    command = "pgsluice queue browse &#39;a/b &lt;c&gt;&#39; {}"

    for address, msg_id in (
        (sent, 1),
        (sent.replace("msg_id=1", "msg_id=2"), 2),
        ("/dead-letters?queue=a/b+%3Cc%3E&dead_letter_id=1", 2),
        ("/dead-letters?queue=a/b+%3Cc%3E", None),
    ):
        page = client.get(address)
        assert page.status_code == 200
        assert "é" * 20_001 not in page.text
        assert len(page.text) < 40_000, address
        assert "… (100\u202f000 characters)" in page.text
        if msg_id is not None:
            assert command.format(msg_id) in page.text


def test_download_has_every_digit(client, sent):
    link = sent.replace("/message", "/message/payload")

    assert '"price": 1.10' in client.get(link).text
    assert '"big": 123456789012345678901234567890' in client.get(link).text
    assert '"h": 2.50' in client.get(f"{link}&part=headers").text


def test_hidden_keys_are_hidden_in_the_download_as_well(opened, sent):
    careful = opened(
        hidden_keys=["Secret"], redact=lambda _, value: {**value, "text": "gone", "big": 1}
    )
    link = sent.replace("/message", "/message/payload")

    for shown in (careful.get(sent), careful.get(link), careful.get(f"{link}&part=headers")):
        assert "s3" not in shown.text
        assert "alert" not in shown.text
    assert "•••" in careful.get(sent).text


@pytest.mark.parametrize("depth", [900, 3000])
def test_deeply_nested_message_is_shown_and_with_hidden_keys_hidden(
    opened, work, connection, depth
):
    work.create("deep")
    connection.execute(
        """select pgmq.send('deep', (repeat('[', %s) || '{"card": "4111"}' || repeat(']', %s))::jsonb)""",
        (depth, depth),
    )
    pages = (
        "/message?queue=deep&msg_id=1",
        "/message/payload?queue=deep&msg_id=1",
        "/messages?queue=deep",
    )

    for client, is_open in ((opened(), True), (opened(hidden_keys=["card"]), False)):
        for page in pages:
            answer = client.get(page)
            assert answer.status_code == 200, (page, answer.text)
            assert ("4111" in answer.text) <= is_open
        assert ("4111" in client.get(pages[1]).text) == is_open


def test_message_that_is_never_visible_is_shown(client, connection, sent):
    connection.execute("update pgmq.\"q_a/b <c>\" set vt = 'infinity'")

    assert "&#34;price&#34;: 1.10" in client.get(sent).text
    listed = client.get("/messages?queue=a/b+%3Cc%3E&msg_id=1")
    assert listed.status_code == 200


def test_unknown_message_is_not_found(client, sent):
    for missing in ("msg_id=77", "msg_id=x", "msg_id=", "msg_id=99999999999999999999"):
        assert client.get(sent.replace("msg_id=1", missing)).status_code == 404
    assert "never had a message 77" in client.get(sent.replace("msg_id=1", "msg_id=77")).text
    link = sent.replace("/message", "/message/payload")
    assert client.get(link.replace("msg_id=1", "msg_id=77")).status_code == 404
    assert client.get("/message?queue=missing&msg_id=1").status_code == 404


def test_deleted_message_is_explained(client, work, sent):
    work.delete("a/b <c>", 1)

    shown = client.get(sent)

    assert shown.status_code == 200
    assert ">gone<" in shown.text


def test_monitor_sees_the_history_and_no_payload(monitor, sent):
    text = monitor.get(sent).text

    assert "Message 1 is in queue" in text
    assert "sluice_reader" in text
    assert "alert" not in text
    assert monitor.get(sent.replace("/message", "/message/payload")).status_code == 403
