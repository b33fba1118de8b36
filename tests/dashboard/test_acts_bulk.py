"""Bulk acts: a frozen set, bounded steps, progress, cancel, and what a failure leaves."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime

import pytest

from pgsluice import Operations
from pgsluice.client import DeadLetters
from pgsluice.dashboard.acts import dead_letters, queues
from support import rows, value, wait_until
from support.dashboard import form_of, make_world, submit

REJECT = "select sluice.reject(%s, m.msg_id, m.read_ct, %s, null) from pgmq.read(%s, 600, %s) as m"


def fail(connection, queue, number, reason="bad shape"):
    """Send messages and dead-letter them."""
    connection.execute(
        "select pgmq.send(%s, to_jsonb(n)) from generate_series(1, %s) as n", (queue, number)
    )
    connection.execute(REJECT, (queue, reason, queue, number))


def job_of(client, answer):
    """Wait for the end of the job, and return its page."""
    path = str(answer.url)
    assert "/job?id=" in path, answer.text
    wait_until(lambda: ", ended " in client.get(path).text, "the job to end")
    return client.get(path).text


@pytest.mark.parametrize(
    ("act", "arguments", "arrive", "left"),
    [
        (
            *("purge_queue", {"queue": "full"}),
            "select pgmq.send('full', '\"new\"')",
            "select message #>> '{}' from pgmq.q_full",
        ),
        (
            *("redrive", {"queue": "failed"}),
            "select sluice.reject('failed', 4, read_ct, 'new') from pgmq.read('failed', 600, 1)",
            "select reason from sluice.dead_letter where queue_name = 'failed'",
        ),
        (
            *("purge_dead_letters", {"queue": "failed"}),
            "select sluice.reject('failed', 4, read_ct, 'new') from pgmq.read('failed', 600, 1)",
            "select reason from sluice.dead_letter where queue_name = 'failed'",
        ),
        (
            *("redrive", {"queue": "audit", "consumer": "failed"}),
            "select sluice.acknowledge('audit', 'failed', claim_id, 'reject', array[ev_id], null, 'e', 'new')"
            " from sluice.claim('audit', 'failed', 1)",
            "select reason from sluice.dead_letter where consumer_name = 'failed'",
        ),
        (
            *("purge_dead_letters", {"queue": "audit", "consumer": "failed"}),
            "select sluice.acknowledge('audit', 'failed', claim_id, 'reject', array[ev_id], null, 'e', 'new')"
            " from sluice.claim('audit', 'failed', 1)",
            "select reason from sluice.dead_letter where consumer_name = 'failed'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)
def test_message_that_arrives_between_question_and_answer_is_untouched(
    acting, connection, act, arguments, arrive, left
):
    make_world(connection)
    if "consumer" in arguments:
        connection.execute("select pgq.insert_event('audit', 't', 'later')")
        connection.execute("select pgq.force_tick('audit'), pgq.ticker('audit')")
    action, fields = form_of(acting.get(f"/act/{act}", params=arguments).text)
    connection.execute(arrive)

    job_of(acting, acting.post(action, data=fields))

    assert rows(connection, left) == [("new",)]


def test_steps_are_transactions_of_their_own_and_each_is_recorded(
    acting, connection, work, monkeypatch
):
    monkeypatch.setattr(queues, "_PURGED_EACH", 3)
    work.create("orders")
    work.send_batch("orders", list(range(8)))

    shown = job_of(acting, submit(acting, "purge_queue", {"queue": "orders"}))

    assert "8 of 8 deleted" in shown
    assert [each.message_count for each in Operations(connection).list_actions()] == [2, 3, 3]
    applications = {each.application for each in Operations(connection).list_actions()}
    assert applications == {"pgsluice dashboard"}


def test_cancel_in_the_middle_keeps_what_is_done(
    acting, connection, database_18, work, monkeypatch
):
    monkeypatch.setattr(dead_letters, "_REDRIVEN_EACH", 2)
    work.create("orders")
    fail(connection, "orders", 6)
    with database_18.connect(autocommit=False) as holder:
        # Its second step waits for this lock.
        holder.execute("select from sluice.dead_letter where dead_letter_id = 4 for update")
        answer = submit(acting, "redrive", {"queue": "orders"})
        path = str(answer.url)
        wait_until(lambda: "2 of 6 redriven" in acting.get(path).text, "the first step")
        action, fields = form_of(acting.get(path).text)
        canceled = acting.post(action, data=fields)
        assert "canceling" in canceled.text
        assert form_of(canceled.text)[0] is None
        holder.rollback()

    shown = job_of(acting, answer)

    assert "4 of 6 redriven" in shown
    assert "What is done stays done" in shown
    assert len(DeadLetters(connection, "orders").browse()) == 2
    assert len(work.browse("orders")) == 4


def test_filter_is_kept(acting, connection, work):
    work.create("orders")
    fail(connection, "orders", 2, "bad shape")
    fail(connection, "orders", 3, "too old")

    answer = submit(acting, "redrive", {"queue": "orders", "reason": "too old"})

    assert "3 of 3 redriven" in job_of(acting, answer)
    assert {each.reason for each in DeadLetters(connection, "orders").browse()} == {"bad shape"}


@pytest.mark.parametrize(("act", "left_in_queue"), [("redrive", 2), ("purge_dead_letters", 0)])
def test_acts_change_no_more_than_the_text_matches(acting, connection, work, act, left_in_queue):
    work.create("orders")
    connection.execute(
        "select pgmq.send('orders', jsonb_build_object('customer', case when n % 2 = 0 then 'Ann' else 'Bob' end)) "
        "from generate_series(1, 5) as n"
    )
    connection.execute(REJECT, ("orders", "bad shape", "orders", 5))
    page = acting.get("/dead-letters?queue=orders&matching=ANN").text
    link = re.search(rf'href="(/act/{act}[^"]+)"', page)[1].replace("&amp;", "&")

    question = acting.get(link).text
    action, fields = form_of(question)
    shown = job_of(acting, acting.post(action, data=fields))

    assert "2 messages of the dead letters of queue orders that match ANN" in question
    assert "2 of 2" in shown
    left = [each.message["customer"] for each in DeadLetters(connection, "orders").browse()]
    assert left == ["Bob"] * 3
    assert len(work.browse("orders")) == left_in_queue


def test_dead_letters_are_chosen_by_their_error_or_its_pattern(acting, connection, work):
    work.create("orders")
    fail(connection, "orders", 4)
    connection.execute(
        "update sluice.dead_letter set error_type = case when dead_letter_id < 4 then 'KeyError' end, error = "
        "case dead_letter_id when 4 then null else format('no row %s', dead_letter_id) end"
    )

    by_pattern = acting.get("/act/redrive", params={"queue": "orders", "error": "no row #"}).text
    whole = acting.get("/act/redrive", params={"queue": "orders", "error": "no row 2"}).text
    nothing = {"queue": "orders", "error": "", "error_type": ""}
    without = acting.get("/act/redrive", params=nothing).text

    assert "Redrive 3 messages" in by_pattern
    assert "Redrive 1 message " in whole
    assert "Redrive 1 message " in without
    assert {name: form_of(without)[1][name] for name in nothing} == nothing
    assert "without error type, without error" in without


def test_bound_of_the_page_is_the_bound_of_the_act(acting, connection, work):
    work.create("orders")
    fail(connection, "orders", 1)
    until = datetime.now(UTC)
    fail(connection, "orders", 1, "later")

    answer = submit(acting, "purge_dead_letters", {"queue": "orders", "until": until.isoformat()})

    assert "1 of 1 deleted" in job_of(acting, answer)
    assert [each.reason for each in DeadLetters(connection, "orders").browse()] == ["later"]


def test_one_dead_letter_is_redriven(acting, connection, work):
    work.create("orders")
    fail(connection, "orders", 3)

    answer = submit(acting, "redrive", {"queue": "orders", "dead_letter_id": 2})

    assert "1 of 1 redriven" in job_of(acting, answer)
    assert [each.dead_letter_id for each in DeadLetters(connection, "orders").browse()] == [1, 3]
    assert "does not exist" in acting.get("/act/redrive?queue=orders&dead_letter_id=2").text


def test_selected_dead_letters_are_redriven_and_purged(acting, connection, work):
    work.create("orders")
    fail(connection, "orders", 5)
    left = DeadLetters(connection, "orders")
    for act, ids, said in (
        ("redrive", [4, 2], "Redrive 2 dead letters of queue orders"),
        ("purge_dead_letters", [2, 5], "Delete 1 dead letter of queue orders permanently"),
    ):
        shown = acting.get(
            f"/act/{act}",
            params=[("queue", "orders"), *(("dead_letter_id", i) for i in ["", *ids])],
        ).text
        assert said in shown
        assert form_of(shown)[1]["dead_letter_id"] == ",".join(map(str, ids))
        fail(connection, "orders", 1, "later")
        action, fields = form_of(shown)
        job_of(acting, acting.post(action, data=fields))

    assert "1 of 2 selected no longer exist" in shown
    assert [each.dead_letter_id for each in left.browse()] == [1, 3, 6, 7]


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("dead_letter_id=", 400, "no row is selected"),
        ("dead_letter_id=1&dead_letter_id=x", 400, "use an id"),
        ("&".join(f"dead_letter_id={n}" for n in range(101)), 400, "more than 100 ids"),
        (
            "dead_letter_id=8&dead_letter_id=9",
            200,
            "Dead letter 8, 9 of queue orders does not exist",
        ),
    ],
)
def test_selection_that_names_no_dead_letter_is_refused(
    acting, connection, work, query, status, said
):
    work.create("orders")
    fail(connection, "orders", 2)

    answer = acting.get(f"/act/redrive?queue=orders&{query}")

    assert answer.status_code == status
    assert said in answer.text
    assert form_of(answer.text)[0] is None


def test_dead_letter_of_another_queue_is_untouched(acting, connection, work):
    for name in ("orders", "other"):
        work.create(name)
        fail(connection, name, 1)

    shown = acting.get("/act/redrive?queue=orders&dead_letter_id=2").text

    assert "Dead letter 2 of queue orders does not exist" in shown
    assert form_of(shown)[0] is None


def test_dead_letters_of_a_group_are_chosen_and_come_back_to_it(acting, connection):
    make_world(connection)
    letters = DeadLetters(connection, "audit", "failing")
    connection.execute(
        "update sluice.dead_letter set error = 'other' where consumer_name = 'failing' and msg_id = 3"
    )
    one, *_ = letters.browse()
    place = {"queue": "audit", "consumer": "failing"}

    shown = acting.get("/act/redrive", params=place | {"error": "trace"}).text
    assert "Redrive 2 events of the dead letters of failing of log audit with error trace" in shown
    assert "each becomes a new event for failing alone" in shown
    answer = submit(acting, "redrive", place | {"dead_letter_id": one.dead_letter_id})
    assert "1 of 1 redriven" in job_of(acting, answer)
    assert "1 of 1 redriven" in job_of(
        acting, submit(acting, "redrive", place | {"error": "trace"})
    )

    assert [each.error for each in letters.browse()] == ["other"]
    claimed = "select ev_data, redriven from sluice.claim('audit', 'failing', 10)"
    assert rows(connection, claimed) == [("1", 1), ("2", 1)]
    assert DeadLetters(connection, "audit", "failed").count() == 3, "of another group"
    command = "pgsluice dead-letters redrive --all --consumer=failing audit"
    assert command in acting.get("/act/redrive", params=place).text


def test_dead_letters_of_a_group_that_was_dropped_are_purged_and_not_redriven(acting, connection):
    make_world(connection)
    connection.execute("select sluice.drop_group('audit', 'failed')")
    place = {"queue": "audit", "consumer": "failed"}

    refused = acting.get("/act/redrive", params=place)
    assert "neither a share group nor a consumer &#39;failed&#39;" in refused.text
    assert form_of(refused.text)[0] is None
    assert "3 of 3 deleted" in job_of(acting, submit(acting, "purge_dead_letters", place))

    assert DeadLetters(connection, "audit", "failed").count() == 0


def test_redriven_message_that_fails_again_is_not_redriven_again(
    acting, connection, work, monkeypatch
):
    monkeypatch.setattr(dead_letters, "_REDRIVEN_EACH", 1)
    work.create("orders")
    fail(connection, "orders", 2)
    # Each redriven message is a dead letter again at once.
    connection.execute(
        "create function again() returns trigger language plpgsql as $$ begin "
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason) "
        "values ('orders', new.msg_id, 1, now(), 'again'); return null; end $$"
    )
    connection.execute(
        "create trigger again before insert on pgmq.q_orders for each row execute function again()"
    )

    shown = job_of(acting, submit(acting, "redrive", {"queue": "orders"}))

    assert ", ended " in shown
    assert {each.reason for each in DeadLetters(connection, "orders").browse()} == {"again"}


def test_failed_step_is_said_with_what_was_done(acting, connection, work, monkeypatch):
    monkeypatch.setattr(dead_letters, "_REDRIVEN_EACH", 2)
    work.create("orders")
    fail(connection, "orders", 4)
    connection.execute(
        "alter table pgmq.q_orders add constraint refuse check (message not in ('3')) not valid"
    )

    shown = job_of(acting, submit(acting, "redrive", {"queue": "orders"}))

    assert "failed" in shown
    assert "2 of 4 redriven" in shown
    assert "violates check constraint" in shown
    assert len(DeadLetters(connection, "orders").browse()) == 2


def test_transient_error_is_retried(acting, connection, work, monkeypatch):
    monkeypatch.setattr("pgsluice.dashboard.jobs._RETRY_AFTER_S", (0.01, 0.01))
    work.create("orders")
    fail(connection, "orders", 2)
    connection.execute("create sequence tries")
    connection.execute(
        "create function stumble() returns trigger language plpgsql as $$ begin "
        "if nextval('public.tries') = 1 then raise serialization_failure; end if; return new; end $$"
    )
    connection.execute(
        "create trigger stumble before insert on pgmq.q_orders for each row execute function stumble()"
    )

    assert "2 of 2 redriven" in job_of(acting, submit(acting, "redrive", {"queue": "orders"}))


def test_form_of_a_bulk_act_that_is_sent_twice_acts_once(acting, work, connection):
    work.create("orders")
    work.send_batch("orders", [1, 2])
    action, fields = form_of(acting.get("/act/purge_queue?queue=orders").text)

    answers = [acting.post(action, data=fields) for _ in range(2)]

    assert answers[0].url == answers[1].url
    assert "2 of 2 deleted" in job_of(acting, answers[1])
    assert len(Operations(connection).list_actions()) == 1


def test_jobs_are_listed_newest_first(acting, work):
    assert "No action was begun here" in acting.get("/job").text
    work.create("orders")
    work.send("orders", 1)
    submit(acting, "pause_queue", {"queue": "orders"})
    job_of(acting, submit(acting, "purge_queue", {"queue": "orders"}))

    text = acting.get("/job").text

    assert text.index("Purge the queue") < text.index("Queue orders is paused.")


def test_job_that_is_not_known_names_the_audit(acting):
    for answer in (acting.get("/job?id=lost"), acting.post("/job", data={"id": "lost"})):
        assert answer.status_code == 404
        assert "was restarted" in answer.text


def test_dashboard_that_stops_ends_its_jobs_after_a_step(
    opened, connection, database_18, work, monkeypatch
):
    monkeypatch.setattr(queues, "_PURGED_EACH", 1)
    work.create("orders")
    work.send_batch("orders", list(range(3)))
    client = opened(allow_actions=True)
    client.headers.update({"sec-fetch-site": "same-origin"})
    connection.execute(
        "create function slow() returns trigger language plpgsql as $$ begin "
        "perform pg_advisory_xact_lock(7); return old; end $$"
    )
    connection.execute(
        "create trigger slow before delete on pgmq.q_orders for each row execute function slow()"
    )
    with database_18.connect() as holder:
        holder.execute("select pg_advisory_lock(7)")
        submit(client, "purge_queue", {"queue": "orders"})
        jobs = client.app.state.dashboard.jobs
        stopping = threading.Thread(target=jobs.stop)
        stopping.start()
        wait_until(lambda: jobs.newest()[0].is_canceling, "the job to be canceled")
        holder.execute("select pg_advisory_unlock(7)")
        stopping.join()

    assert [each.state for each in jobs.newest()] == ["canceled"]
    assert len(work.browse("orders")) == 2


def test_nothing_to_do_offers_no_form(acting, connection, work):
    work.create("orders")
    for path, said in (
        ("/act/purge_queue?queue=orders", "has no messages"),
        ("/act/redrive?queue=orders", "There are no dead letters of queue orders"),
        ("/act/purge_dead_letters?queue=orders", "There are no dead letters"),
        ("/act/resume_queue?queue=orders", "is not paused"),
    ):
        shown = acting.get(path)
        assert said in shown.text
        assert form_of(shown.text)[0] is None


@pytest.mark.slow
def test_purge_of_a_large_queue_keeps_no_lock_on_the_queue(acting, connection, work):
    work.create("orders")
    connection.execute(
        "insert into pgmq.q_orders (vt, message) select now(), '{}' from generate_series(1, 60000)"
    )

    answer = submit(acting, "purge_queue", {"queue": "orders"})
    connection.execute("set lock_timeout = '5s'")
    work.send("orders", "new")

    shown = job_of(acting, answer)
    assert "60\u202f000" in shown
    assert [each.message for each in work.browse("orders")] == ["new"]
    assert value(connection, "select sum(message_count) from sluice.action") == 60000
