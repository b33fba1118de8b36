"""Log lines of a failing handler: errors, one traceback, sums of repeats, and all dead letters."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import psycopg
import pytest

from pgsluice.outcome import Reject, Retry
from pgsluice.worker import RetryPolicy
from pgsluice.worker.engine.delivery import Failure
from pgsluice.worker.engine.settle import failure_log
from pgsluice.worker.engine.settle.failure_log import FailureLog, Origin
from pgsluice.worker.engine.settle.redaction import values_of, without_secrets, without_values
from pgsluice.worker.engine.settle.settlement import failure_of
from pgsluice.worker.process import log_lines
from support.runtime import MemorySource, running, spec_for, until, worker_for
from worker.runtime_handlers import do

ORDERS = Origin((("queue", "orders"),), "msg_id", "pack")
FAILURE = Failure("UndefinedTable", 'relation "packed" does not exist', "Traceback …", 1)


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.fixture
def clock(monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr(failure_log, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    return now_s


@pytest.fixture
def failures(caplog):
    caplog.set_level(logging.INFO)
    failures = FailureLog()
    yield failures
    failures.flush()


def reported(caplog):
    return [r for r in caplog.records if r.name == failure_log.logger.name]


def lines(caplog):
    return [record.getMessage() for record in reported(caplog)]


def test_failed_attempt_is_logged_with_message_attempt_next_retry_and_error(failures, caplog):
    failures.report(ORDERS, 7, 2, FAILURE, "retry", next_retry_s=4.0)

    assert lines(caplog) == [
        "handler failed queue=orders msg_id=7 handler=pack attempt=2 next_retry_s=4 "
        'error="UndefinedTable: relation \\"packed\\" does not exist"'
    ]
    assert caplog.records[0].levelno == logging.WARNING


def test_dead_letter_is_logged_with_its_attempts(failures, caplog):
    failures.report(ORDERS, 7, 5, FAILURE, "dead")

    assert lines(caplog) == [
        "message dead-lettered queue=orders msg_id=7 handler=pack attempts=5 "
        'error="UndefinedTable: relation \\"packed\\" does not exist"'
    ]
    assert caplog.records[0].levelno == logging.ERROR


def test_traceback_is_logged_at_the_first_failure_of_its_kind_only(failures, caplog):
    other_place = replace(FAILURE, place=2)
    for failure in (FAILURE, FAILURE, other_place, other_place):
        failures.report(ORDERS, 7, 1, failure, "retry")

    assert [record.exc_text for record in reported(caplog)] == ["Traceback …", None] * 2


def test_repeats_are_summed_up_and_none_is_dropped(failures, caplog, clock):
    for number in range(417):
        failures.report(ORDERS, number, 1, FAILURE, "retry")
    assert len(lines(caplog)) == 5
    clock[0] += 10.0
    failures.report(ORDERS, 417, 1, FAILURE, "retry")

    assert lines(caplog)[5] == (
        "handler failed repeatedly queue=orders handler=pack count=412 seconds=10 last_msg_id=416 "
        'error="UndefinedTable: relation \\"packed\\" does not exist"'
    )
    assert "msg_id=417" in lines(caplog)[6]


def test_repeats_are_summed_up_without_another_failure_when_the_window_ends(
    failures, caplog, monkeypatch
):
    monkeypatch.setattr(failure_log, "_WINDOW_S", 0.2)
    logged = threading.Event()
    monkeypatch.setattr(
        failure_log.logger, "handle", lambda r: "repeatedly" in r.getMessage() and logged.set()
    )
    for number in range(6):
        failures.report(ORDERS, number, 1, FAILURE, "retry")

    assert logged.wait(30), "no sum"


def test_flush_logs_the_sums_at_once(failures, caplog):
    for number in range(9):
        failures.report(ORDERS, number, 5, FAILURE, "dead")
    failures.flush()

    assert "messages dead-lettered queue=orders handler=pack count=4 " in lines(caplog)[-1]


def test_number_of_kinds_is_bounded_and_their_sums_are_logged(failures, caplog, monkeypatch):
    monkeypatch.setattr(failure_log, "_KINDS_MAX", 10)
    for number in range(6):
        failures.report(ORDERS, number, 1, FAILURE, "retry")
    for place in range(2, 40):
        failures.report(ORDERS, 9, 1, replace(FAILURE, place=place), "retry")

    assert sum("repeatedly" in line and "count=1 " in line for line in lines(caplog)) == 1
    assert len(failures._kinds) <= 10


def test_long_and_multi_line_errors_are_one_bounded_line(failures, caplog):
    failures.report(ORDERS, 7, 1, Failure("E", "a\nb" + "x" * 100_000), "retry")

    (line,) = lines(caplog)
    assert "\n" not in line
    assert 'error="E: a\\nbxx' in line
    assert len(line) < 1_000


def test_error_whose_text_raises_is_logged_by_its_class(failures, caplog):
    failures.report(ORDERS, 7, 1, failure_of(UnprintableError()), "retry")

    assert 'error="UnprintableError: (str() of the exception failed)' in lines(caplog)[0]


@pytest.mark.parametrize(
    "text",
    [
        "connecting to postgresql://me:s3cret@host/db failed",
        "connecting to postgresql://me:s3c@s3cret@host/db failed",
        'missing "=" after "s3cret" in connection info string',
        'invalid percent-encoded token: "s3cret%zz"',
        'could not translate host name "s3cret@host" to address',
        "host=h user=u password=s3cret dbname=d",
        "host=h password='two s3cret' dbname=d",
        "{'password': 's3cret', 'user': 'u'}",
        "API_KEY=s3cret",
        "duplicate key value\nDETAIL:  Key (mail)=(s3cret) already exists.",
        "bad\nLINE 1: insert into t values ('s3cret')\n                          ^",
        'bad\nCONTEXT:  COPY t, line 1, column a: "s3cret"\nHINT:  none',
        "1 error\nname\n  Input should be a number [type=int, input_value='s3cret', input_type=str]",
    ],
)
def test_secrets_and_quoted_rows_are_masked(text):
    assert "s3cret" not in without_secrets(text)


def test_dsn_errors_of_psycopg_are_masked():
    for dsn in (
        "host=h password=s3cret two",
        "postgresql://me:s3cret%zz@h/d",
        "postgresql:/me:s3cret@h",
    ):
        with pytest.raises(psycopg.Error) as caught:
            psycopg.connect(dsn, connect_timeout=2)
        text = without_secrets("".join(failure_of(caught.value).trace.splitlines(True)[-1:]))
        assert "two" not in text, text
        assert "s3cret" not in text, text


def test_payload_values_are_masked_in_messages_and_not_in_code():
    values = values_of({"name": "Customer Ann", "in": ["line\nbreak"], "path": "app.py", "n": "ab"})
    trace = (
        'Traceback (most recent call last):\n  File "/srv/app.py", line 3, in pack\n'
        "    int(payload)\nValueError: invalid 'Customer Ann', 'line\\nbreak' in app.py, ab"
    )

    masked = without_values(trace, values)

    assert 'File "/srv/app.py"' in masked
    assert masked.endswith("ValueError: invalid '***', '***' in ***, ab")


def test_values_of_an_event_are_found_in_its_text():
    assert "secret word" in values_of('{"a": ["secret word"]}')


@pytest.mark.parametrize("length", [150, 3_000, 30_000])
def test_value_that_an_error_quotes_in_part_is_masked(length):
    secret = "secret words " * (length // 13)
    text = f"invalid literal for int() with base 10: {secret!r}"[:1_000]

    masked = without_values(text, values_of({"a": secret}))

    assert masked.startswith("invalid literal for int() with base 10: '***")
    assert "secret" not in masked


def test_each_line_of_a_value_is_masked():
    payload = {"address": "Ann Example\n1 High Street\nUSA"}

    masked = without_values("no such address: Ann Example\n1 High Street\nUSA", values_of(payload))

    assert masked == "no such address: ***\n***\nUSA"


def test_masking_a_large_payload_takes_milliseconds():
    """The event loop waits for it, and with it the renewal of leases."""
    payload = {"text": "x" * 3_000_000, "texts": [f"{n} {'y' * 2000}" for n in range(1000)]}
    began_s = time.process_time()

    assert without_values("failed on 7", values_of(payload)) == "failed on 7"

    assert time.process_time() - began_s < 0.5, "compiled into a pattern, they take 4 s"


def test_values_are_found_at_any_depth():
    deep: object = "secret word"
    for _ in range(5000):
        deep = [{"a": deep}]

    assert values_of(deep) == ["secret word"]
    assert values_of("[" * 5000) == ["[" * 5000]


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_lines_of_failures_are_not_limited_by_the_rate_of_others(form, monkeypatch):
    stream = io.StringIO()
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    monkeypatch.setattr("sys.stderr", stream)
    try:
        log_lines.set_up_logs(form=form, level="info", secrets=["s3cret"], number=None)
        failures = FailureLog()
        for number in range(30):
            failures.report(
                ORDERS, number, 1, replace(FAILURE, message="s3cret", place=number), "retry"
            )
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        logging.captureWarnings(capture=False)

    text = stream.getvalue()
    assert "s3cret" not in text
    assert text.count("handler failed") == text.count("Traceback …") == 30
    if form == "json":
        first = json.loads(text.splitlines()[0])
        assert first["message"] == "handler failed"
        assert (first["queue"], first["msg_id"], first["error"]) == (
            "orders",
            0,
            "UndefinedTable: ***",
        )
        assert first["exception"] == "Traceback …"


async def work(spec, payloads, *, max_attempts=1, until_true=None, **options):
    source = MemorySource(payloads, max_attempts=max_attempts)
    worker = worker_for((source, spec), **options)
    async with running(worker):
        await until(lambda: not source.open, "all to end", 60)
        worker.stop()
    return source


async def test_failure_in_the_event_loop_is_logged_with_its_text(caplog):
    async def handle(_payload):
        raise KeyError("colour")

    await work(spec_for(handle), ["x"])

    assert lines(caplog) == [
        "message dead-lettered queue=memory msg_id=1 handler=handler attempts=1 error=\"KeyError: 'colour'\""
    ]
    assert "raise KeyError" in reported(caplog)[0].exc_text


async def test_failure_in_a_thread_is_logged_with_its_text(caplog):
    def handle(_payload):
        raise KeyError("colour")

    await work(spec_for(handle, retry=RetryPolicy(max_attempts=2)), ["x"], max_attempts=2)

    assert "handler failed queue=memory msg_id=1 handler=handler attempt=1" in lines(caplog)[0]
    assert (
        "message dead-lettered queue=memory msg_id=1 handler=handler attempts=2" in lines(caplog)[1]
    )
    assert all("KeyError: 'colour'" in line for line in lines(caplog))


@pytest.mark.slow
async def test_failure_in_a_process_is_logged_with_its_text(caplog):
    await work(do.spec, ["raise", "kill"])

    first, second = sorted(lines(caplog))
    assert first.endswith("error=\"KeyError: 'raised'\"")
    assert "process died: signal SIGKILL" in second
    assert any("in do" in (record.exc_text or "") for record in reported(caplog))


@pytest.mark.parametrize("outcome", [Reject("no such country"), Retry(0, "come back later")])
async def test_reason_of_a_handlers_own_outcome_is_logged(outcome, caplog):
    caplog.set_level(logging.INFO)

    async def handle(_payload):
        raise outcome

    await work(spec_for(handle), ["x"])

    assert outcome.reason in lines(caplog)[0]


async def test_failure_of_a_middleware_is_logged_with_its_text(caplog):
    async def handle(_payload):
        pass

    async def broken(_call, _payload, _context):
        raise ValueError("no tenant")

    await work(spec_for(handle), ["x"], middlewares=[broken])

    assert 'error="ValueError: no tenant"' in lines(caplog)[0]


async def test_stop_logs_the_sums(caplog):
    async def handle(_payload):
        raise KeyError("colour")

    await work(spec_for(handle), range(50))

    assert "messages dead-lettered queue=memory handler=handler count=45 " in lines(caplog)[-1]


async def test_message_that_used_up_its_attempts_by_dying_is_logged_as_dead_lettered(caplog):
    """MemorySource dead-letters in `begin`, as the server does if no start was settled."""
    source = MemorySource(["x"], max_attempts=1)
    source.messages[1].starts = 1
    begin = source.begin

    async def dead(deliveries):
        begun = await begin(deliveries)
        for delivery in set(deliveries).difference(begun):
            delivery.is_dead, delivery.attempt = True, 1
        return begun

    source.begin = dead

    async def handle(_payload):
        pass

    worker = worker_for((source, spec_for(handle)))
    async with running(worker):
        await until(lambda: not source.open, "the message to be dead-lettered")
        await asyncio.sleep(0)
        worker.stop()

    assert (
        'message dead-lettered queue=memory msg_id=1 handler=handler attempts=1 error="process died'
        in ("\n".join(lines(caplog)))
    )
    assert worker.counts()["handler"].dead == 1
