"""Markup in names, reasons, errors and values is text on the forms and on the pages of results."""

from __future__ import annotations

import base64

import pytest

from pgsluice import Operations
from pgsluice.client import EventLog, WorkQueue
from pgsluice.dashboard.guard import basic
from support.dashboard import GROUP, LOG, SAME_ORIGIN, form_of, open_client, submit
from support.share_groups import acknowledge
from support.share_keys import claimed_keys, make_keyed

EVIL = "<img src=x onerror=alert(1)>\"'&{{777777*777777}}"
QUEUE = '<img src=x>"&'
GROUP_NAME = f"{EVIL}g"


def assert_harmless(page):
    assert "<img" not in page
    assert "604937061729" not in page.partition("<main")[2].partition("</main")[0]


@pytest.fixture(scope="module")
def evil(world):
    """A dashboard of a database whose names, reasons and errors are markup."""
    with world.connect() as connection:
        make_evil(connection)
    with open_client(world.url) as client:
        yield client


def make_evil(connection):
    work, logs = WorkQueue(connection), EventLog(connection)
    work.create(QUEUE)
    work.send(QUEUE, EVIL)
    work.set_queue_options(QUEUE, paused=True, pause_reason=EVIL)
    work.read(QUEUE, 600, 1)
    connection.execute("select sluice.reject(%s, 1, 1, %s, %s)", (QUEUE, EVIL, EVIL))
    work.send_batch(QUEUE, [EVIL] * 4)
    logs.create(EVIL)
    logs.register_consumer(EVIL, EVIL)
    connection.execute("select sluice.schedule(%s, %s, '{}', every => '1 day')", (EVIL, QUEUE))
    connection.execute("select sluice.create_group(%s, %s)", (EVIL, GROUP_NAME))


@pytest.mark.parametrize(
    ("act", "arguments", "filled"),
    [
        ("send", {"queue": QUEUE}, {"message": f'["{"<img>"}"]', "headers": '{"<img>": 1}'}),
        ("pause_queue", {"queue": QUEUE}, {"reason": EVIL}),
        ("resume_queue", {"queue": QUEUE}, {}),
        ("set_retention", {"queue": QUEUE}, {"retention": "1d"}),
        ("retry_message", {"queue": QUEUE, "msg_id": 2}, {}),
        ("archive_message", {"queue": QUEUE, "msg_id": 3}, {}),
        ("delete_message", {"queue": QUEUE, "msg_id": 4}, {}),
        ("redrive", {"queue": QUEUE, "reason": EVIL, "error": EVIL}, {}),
        ("purge_queue", {"queue": QUEUE}, {}),
        ("unpark_messages", {"queue": QUEUE, "key": EVIL}, {}),
        ("unregister_consumer", {"log": EVIL, "consumer": EVIL}, {}),
        ("unpark_key", {"log": EVIL, "group": GROUP_NAME, "key": EVIL}, {}),
        ("run_schedule", {"name": EVIL}, {}),
        ("pause_schedule", {"name": EVIL}, {}),
    ],
)
def test_names_reasons_and_values_are_escaped(evil, act, arguments, filled):
    shown = evil.get(f"/act/{act}", params=arguments)
    assert_harmless(shown.text)
    _, fields = form_of(shown.text)
    assert {name: fields[name] for name in arguments} == {
        name: str(value) for name, value in arguments.items()
    }

    answer = submit(evil, act, arguments, **filled)

    assert answer.status_code == 200
    assert_harmless(answer.text)


@pytest.mark.parametrize(
    ("act", "arguments"),
    [
        ("pause_queue", {"queue": EVIL}),
        ("retry_message", {"queue": QUEUE, "msg_id": EVIL}),
        ("redrive", {"queue": QUEUE, "until": EVIL}),
        ("unregister_consumer", {"log": EVIL, "consumer": "<img>"}),
        ("run_schedule", {"name": "<img>"}),
        ("redrive", {"queue": EVIL, "consumer": "<img>"}),
    ],
)
def test_errors_are_escaped(evil, act, arguments):
    for answer in (
        evil.get(f"/act/{act}", params=arguments),
        evil.post(f"/act/{act}", data=arguments | {"token": "A" * 22}),
    ):
        assert answer.status_code in (200, 400, 404)
        assert_harmless(answer.text)


def test_invalid_values_are_escaped_where_they_are_shown_again(evil):
    answer = submit(
        evil, "send", {"queue": QUEUE}, message=f"</textarea>{EVIL}", delay=EVIL, headers=EVIL
    )

    assert answer.status_code == 400
    assert_harmless(answer.text)
    assert answer.text.count("</textarea>") == 1
    assert form_of(answer.text)[1]["message"] == f"</textarea>{EVIL}"


def test_error_of_a_failed_job_is_escaped(acting, connection):
    make_evil(connection)
    connection.execute(
        """do $$ begin execute format('alter table pgmq.%I add constraint "<img src=y>" check (message is null) not valid',
        pgmq.format_table_name($1, 'q')); end $$""".replace("$1", f"'{QUEUE}'")
    )

    answer = submit(acting, "redrive", {"queue": QUEUE})

    assert "&lt;img src=y&gt;" in answer.text
    assert_harmless(answer.text)


def test_name_of_the_viewer_is_escaped_and_stored_as_text(opened, work, connection):
    work.create("orders")
    name = "<img>\x00\n\N{SNOWMAN}" + "x" * 100
    client = opened(allow_actions=True, authenticate=basic("secret"))
    client.headers.update(
        {
            "authorization": f"Basic {base64.b64encode(f'{name}:secret'.encode()).decode()}",
            **SAME_ORIGIN,
        }
    )

    answer = submit(client, "purge_queue", {"queue": "orders"}) if work.send("orders", 1) else None

    assert "<img>" not in answer.text
    (action,) = Operations(connection).list_actions()
    assert action.application.startswith("pgsluice dashboard: <img>")


def test_unknown_token_in_the_address_is_not_shown(evil):
    for path in (f"/?done={EVIL}", f"/job?id={EVIL}", f"/act/{EVIL}"):
        assert_harmless(evil.get(path).text)


def test_text_that_postgresql_cannot_store_is_refused(evil):
    for path in ("/act/pause_queue?queue=%00", "/act/unpark_messages?queue=orders&key=a%00b"):
        assert evil.get(path).status_code == 400


@pytest.mark.parametrize("key", ["</textarea><script>", "-rf", "a b"])
def test_parked_keys_of_any_name_are_unparked(acting, connection, key):
    make_keyed(connection, "park")
    connection.execute("select pgq.insert_event(%s, 't', 'd', %s, null, null, null)", (LOG, key))
    acknowledge(connection, claimed_keys(connection, 1)[0], "retry", error="broken")
    claimed_keys(connection)

    answer = submit(acting, "unpark_key", {"log": LOG, "group": GROUP, "key": key})

    assert "<script>" not in answer.text
    assert "delivered again" in answer.text
