"""Each act: it asks, happens once, and is recorded with the name of the viewer."""

from __future__ import annotations

import base64
import threading
from datetime import timedelta

import pytest

from pgsluice import Operations
from pgsluice.dashboard.acts.catalog import ACTS
from pgsluice.dashboard.guard import basic
from support import rows, value
from support.dashboard import CASES, form_of, make_world, open_client, submit

ALICE = {"authorization": f"Basic {base64.b64encode(b'alice:secret').decode()}"}


@pytest.fixture(scope="module")
def alice(world):
    """A viewer of the shared database, who authenticates."""
    with open_client(world.url, authenticate=basic("secret")) as client:
        client.headers.update(ALICE)
        yield client


def actions(connection):
    return Operations(connection).list_actions()


def state_of(connection):
    """Everything that a GET must leave as it is."""
    tables = rows(
        connection,
        "select schemaname, relname from pg_stat_user_tables where schemaname in ('pgmq', 'pgq', 'sluice') order by 1, 2",
    )
    return [
        (
            schema,
            name,
            value(
                connection,
                f"select md5(string_agg(t::text, e'\\n' order by t::text)) from {schema}.\"{name}\" t",
            ),
        )
        for schema, name in tables
    ]


def test_there_is_a_case_for_each_act():
    assert {case.act for case in CASES} == set(ACTS)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_act_happens_and_is_recorded_with_the_name_of_the_viewer(alice, world, case):
    with world.connect() as connection:
        before = actions(connection)
        shown = submit(alice, case.act, case.arguments, **case.filled)

        assert shown.status_code == 200
        new = actions(connection)[: -len(before) or None]
        assert [(each.action, each.application) for each in new] == [
            (case.recorded, "pgsluice dashboard: alice")
        ]
    # In place of pages that are not built, or of what no longer exists, the answer of the act itself is tested.
    assert 'role="status"' in shown.text


@pytest.mark.parametrize("case", CASES, ids=str)
def test_form_is_refused_without_its_arguments(alice, case):
    for method in (alice.get, alice.post):
        answer = method(f"/act/{case.act}")

        assert answer.status_code in (400, 415)


def test_opening_forms_changes_nothing(opened, connection, database_18):
    make_world(connection)
    client = opened(allow_actions=True)
    before = state_of(connection)

    for case in CASES:
        assert (
            client.get(f"/act/{case.act}", params=case.arguments | case.filled).status_code == 200
        )
        assert client.head(f"/act/{case.act}", params=case.arguments).status_code == 200

    assert state_of(connection) == before


def test_form_that_is_sent_twice_acts_once(acting, work):
    work.create("orders")
    action, fields = form_of(acting.get("/act/send?queue=orders").text)

    answers = [acting.post(action, data=fields | {"message": "1"}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert all("Message 1 was sent to queue orders." in answer.text for answer in answers)
    assert [each.msg_id for each in work.browse("orders")] == [1]


def test_form_that_is_sent_at_once_in_two_processes_acts_once(opened, work):
    """A second dashboard stands for the second process: it knows the token from the database alone."""
    work.create("orders")
    first, second = (opened(allow_actions=True) for _ in range(2))
    for client in (first, second):
        client.headers.update({"sec-fetch-site": "same-origin"})
    action, fields = form_of(first.get("/act/send?queue=orders").text)
    answers = []
    threads = [
        threading.Thread(target=lambda c=c: answers.append(c.post(action, data=fields)))
        for c in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [answer.status_code for answer in answers] == [200, 200]
    texts = " ".join(answer.text for answer in answers)
    assert "Message 1 was sent to queue orders." in texts
    assert "This form was sent before" in texts
    assert len(work.browse("orders")) == 1


def test_form_whose_act_failed_can_be_sent_again(acting, work, connection):
    work.create("orders")
    action, fields = form_of(acting.get("/act/send?queue=orders").text)
    connection.execute("alter table pgmq.q_orders add constraint refuse check (message <> '1')")
    assert acting.post(action, data=fields | {"message": "1"}).status_code == 500
    connection.execute("alter table pgmq.q_orders drop constraint refuse")

    assert "was sent" in acting.post(action, data=fields | {"message": "1"}).text


@pytest.mark.parametrize("token", ["", "short", "x" * 65, "<script>alert(1)</script>"])
def test_form_without_a_valid_token_is_refused(acting, work, token):
    work.create("orders")

    answer = acting.post("/act/send", data={"queue": "orders", "message": "1", "token": token})

    assert answer.status_code == 400
    assert work.browse("orders") == []


def test_message_is_sent_with_every_digit(acting, work, connection):
    work.create("orders")
    text = '{"n": 123456789012345678901234567890.12345678901234567890, "t": 1.10}'

    submit(acting, "send", {"queue": "orders"}, message=text, headers='{"a": 1e2}', delay="90s")

    ((message, headers, delay),) = rows(
        connection,
        "select message::text, headers::text, extract(epoch from vt - enqueued_at)::int from pgmq.q_orders",
    )
    assert (message, headers, delay) == (text, '{"a": 100}', 90)


@pytest.mark.parametrize(
    ("filled", "said"),
    [
        ({"message": ""}, "message is empty"),
        ({"message": '{"a": '}, "message is not valid JSON"),
        ({"message": "[NaN]"}, "message is not valid JSON"),
        ({"message": "[" * 100_000}, "message is not valid JSON"),
        ({"message": '"\\u0000"'}, "\\u0000"),
        ({"headers": "[1]"}, "headers is not a JSON object"),
        ({"delay": "soon"}, "delay is"),
        ({"delay": "500ms"}, "whole seconds"),
        ({"delay": "9999999999"}, "delay is"),
    ],
)
def test_form_with_an_invalid_value_is_shown_again_with_what_was_filled_in(
    acting, work, filled, said
):
    work.create("orders")
    filled = {"message": '{"kept": true}', "headers": "", "delay": "0"} | filled

    answer = submit(acting, "send", {"queue": "orders"}, **filled)

    assert answer.status_code == 400
    assert said in answer.text
    _, fields = form_of(answer.text)
    assert {name: fields[name] for name in filled} == filled
    assert work.browse("orders") == []


def test_invalid_retention_is_refused(acting, work):
    work.create("orders")
    work.set_queue_options("orders", archive_retention=timedelta(days=1))

    for text in ("", "soon", "-1d"):
        assert (
            submit(acting, "set_retention", {"queue": "orders"}, retention=text).status_code == 400
        )
    assert work.queue_options("orders").archive_retention == timedelta(days=1)
    submit(acting, "set_retention", {"queue": "orders"}, retention="forever")

    assert work.queue_options("orders").archive_retention is None


def test_reason_of_a_pause_is_kept(acting, work):
    work.create("orders")

    submit(acting, "pause_queue", {"queue": "orders"}, reason="bank is down")

    paused = work.queue_options("orders")
    assert paused.paused_at is not None
    assert paused.pause_reason == "bank is down"
    again = acting.get("/act/pause_queue?queue=orders").text
    assert "It is paused already" in again


@pytest.mark.parametrize("act", ["retry_message", "archive_message", "delete_message"])
def test_message_that_is_gone_when_the_form_is_sent_is_said_to_be_gone(
    acting, work, act, connection
):
    work.create("orders")
    work.send("orders", 1)
    action, fields = form_of(acting.get(f"/act/{act}?queue=orders&msg_id=1").text)
    work.archive("orders", 1)

    assert "Message 1 was no longer in queue orders." in acting.post(action, data=fields).text
    assert Operations(connection).list_actions() == []
    assert "it is archived" in acting.get(f"/act/{act}?queue=orders&msg_id=1").text


@pytest.mark.parametrize(
    ("act", "recorded", "done", "left"),
    [
        ("retry_message", "set_vt", "2 of 3 messages of queue orders are visible now", [1, 2, 4]),
        ("archive_message", "archive", "2 of 3 messages of queue orders are archived", [1]),
        ("delete_message", "delete", "2 of 3 messages of queue orders are deleted", [1]),
    ],
)
def test_act_on_selected_messages_leaves_the_others(
    acting, work, connection, act, recorded, done, left
):
    work.create("orders")
    work.send_batch("orders", [1, 2, 3, 4], delay=600)
    selected = [("msg_id", number) for number in (2, 3, 4)]

    shown = acting.get(f"/act/{act}", params=[("queue", "orders"), *selected]).text
    action, fields = form_of(shown)
    work.delete("orders", 3)
    answer = acting.post(action, data=fields)

    assert "3 messages of queue orders" in shown
    assert "Selected: 2, 3, 4." in shown
    assert "Now: 3 delayed." in shown
    assert done in answer.text
    assert str(answer.url.path) == "/messages"
    assert [each.msg_id for each in work.browse("orders")] == left
    (action,) = actions(connection)
    assert (action.action, action.message_count, action.filter["msg_ids"]) == (recorded, 2, [2, 4])
    gone = acting.get(f"/act/{act}", params=[("queue", "orders"), ("msg_id", 8), ("msg_id", 9)])
    assert "None of the 2 selected messages is in queue orders" in gone.text


def test_destructive_acts_warn(alice):
    destructive = {name for name, each in ACTS.items() if each.is_destructive}
    warning = {
        case.act
        for case in CASES
        if '<button class="danger">' in alice.get(f"/act/{case.act}", params=case.arguments).text
    }

    # The other tests of this module may have done an act, which then has no form.
    assert destructive == {
        "purge_queue", "purge_dead_letters", "delete_message", "unregister_consumer"
    }  # fmt: skip
    assert warning <= destructive


def test_question_has_the_number_and_the_command(acting, work, logs):
    work.create("big orders")
    work.send_batch("big orders", list(range(7)))
    logs.create("audit")
    logs.register_consumer("audit", "billing")

    shown = acting.get("/act/purge_queue", params={"queue": "big orders"}).text
    assert "Delete 7 messages of queue big orders, visible or not, up to msg_id 7." in shown
    assert "pgsluice queue delete --all &#39;big orders&#39;" in shown
    assert (
        "pgsluice log unregister audit billing"
        in acting.get("/act/unregister_consumer?log=audit&consumer=billing").text
    )


def test_missing_objects_are_404(acting, work):
    work.create("orders")
    for path in (
        "/act/send?queue=missing",
        "/act/pause_queue?queue=missing",
        "/act/redrive?queue=missing",
        "/act/unregister_consumer?log=missing&consumer=c",
        "/act/unpark_key?log=missing&group=g&key=k",
        "/act/run_schedule?name=missing",
        "/act/explode?queue=orders",
    ):
        assert acting.get(path).status_code == 404, path


def test_form_that_is_too_large_or_no_form_is_refused(acting, work):
    work.create("orders")

    large = acting.post("/act/send", data={"queue": "orders", "message": "1" * 4_000_001})
    other = acting.post("/act/send", json={"queue": "orders", "message": 1})

    assert (large.status_code, other.status_code) == (413, 415)
    assert work.browse("orders") == []
