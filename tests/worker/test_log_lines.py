"""Log lines of a worker: one per event, without payloads and passwords, and bounded in number."""

from __future__ import annotations

import io
import json
import logging
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgsluice.worker.process import log_lines

PASSWORD = "s3cret:/@word"
QUOTED = "s3cret%3A%2F%40word"
PAYLOAD = "the-customer's-secret"


@pytest.fixture
def written(monkeypatch):
    """Configure logging as a process does; return a function that returns the written lines."""
    stream = io.StringIO()
    root = logging.getLogger()
    before, level = list(root.handlers), root.level

    def begin(
        form="text",
        number=None,
        dsn=f"postgresql://u:{QUOTED}@h/d",
    ):
        monkeypatch.setattr("sys.stderr", stream)
        log_lines.set_up_logs(
            form=form, level="info", secrets=log_lines.secrets_of(dsn), number=number
        )
        return stream

    yield begin
    logging.captureWarnings(capture=False)
    root.handlers[:] = before
    root.setLevel(level)


def fail():
    try:
        int(PAYLOAD)
    except ValueError:
        logging.getLogger("pgsluice.worker.x").exception(
            "handler mail failed", extra={"message_id": 7}
        )


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_exception_of_a_handler_is_named_with_its_place_and_without_what_it_says(written, form):
    stream = written(form)

    fail()

    written_text = stream.getvalue()
    assert PAYLOAD not in written_text
    assert written_text.count("\n") == 1
    assert "ValueError" in written_text
    assert f"{__file__}:" in written_text
    assert "message_id" in written_text


@pytest.mark.parametrize("form", ["text", "json"])
def test_password_is_never_logged(written, form):
    stream = written(form)

    for name in ("pgsluice.worker", "psycopg.pool", "the.users.own"):
        logging.getLogger(name).warning(
            "connecting with %s", PASSWORD, extra={"dsn": f"u:{PASSWORD}@h"}
        )
    logging.getLogger("pgsluice").info("postgresql://u:%s@h/d", QUOTED)

    assert "s3cret" not in stream.getvalue()
    assert stream.getvalue().count("***") == 7


def test_json_lines_are_objects_with_the_fields_that_were_given(written):
    stream = written("json", number=2)

    logging.getLogger("pgsluice.worker").info(
        "done %d", 3, extra={"handler": "mail", "attempt": 2, "payload": {"a": PAYLOAD}}
    )

    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "logger": "pgsluice.worker", "message": "done 3", "process": 2, "handler": "mail", "attempt": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "values", "message", "fields"),
    [
        (
            "leader election component=notifier role=leader",
            (),
            "leader election",
            {"component": "notifier", "role": "leader"},
        ),
        (
            'renewal failed queue=%s error="%s" retry_in_s=%.1f',
            ("a b", 'no "x"\nhere', 2.04),
            "renewal failed",
            {"queue": "a b", "error": 'no "x"\nhere', "retry_in_s": 2.0},
        ),
        (
            'queue is paused queue=%s hint="pgsluice queue set %s paused=false"',
            ("q", "q"),
            "queue is paused",
            {"queue": "q", "hint": "pgsluice queue set q paused=false"},
        ),
        (
            "health endpoint started url=http://%s:%d/",
            ("::1", 80),
            "health endpoint started",
            {"url": "http://::1:80/"},
        ),
        (
            'listen failed %s=%s error="%s"',
            ("log", "l", OSError("gone")),
            "listen failed",
            {"log": "l", "error": "gone"},
        ),
        (
            "step failed count=%d error=%r share=%d%%",
            (3, "no", 5),
            "step failed",
            {"count": 3, "error": "no", "share": "5%"},
        ),
        ("%s at %d%% of 100%%", ("disk", 7), "disk at 7% of 100%", {}),
        ("an equation a = b, x=", (), "an equation a = b, x=", {}),
    ],
)
def test_fields_in_the_text_of_our_records_are_fields_of_a_json_line(
    written, text, values, message, fields
):
    stream = written("json")

    logging.getLogger("pgsluice.worker").warning(text, *values)

    line = json.loads(stream.getvalue())
    assert line.pop("message") == message
    assert {name: line[name] for name in line.keys() - {"time", "level", "logger"}} == fields


def test_no_record_of_ours_has_a_field_with_the_name_of_another():
    texts = "\n".join(
        path.read_text() for path in Path(log_lines.__file__).parents[2].rglob("*.py")
    )

    found = re.findall(r"_log\.\w+\(\s*f?['\"][^)]*?[ '](time|level|logger|message)=", texts)

    assert found == []


def test_the_users_own_lines_keep_their_traceback(written):
    stream = written()

    try:
        {}["mine"]
    except KeyError:
        logging.getLogger("shop").exception("oh")

    assert "KeyError: 'mine'" in stream.getvalue()


def test_warnings_of_the_runtime_are_two_a_second_and_those_kept_back_are_counted(
    written, monkeypatch
):
    now_s = [100.0]
    monkeypatch.setattr(log_lines, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    stream = written()
    log = logging.getLogger("pgsluice.worker.wakeups.listener")

    for tenth in range(100):
        now_s[0] = 100.0 + tenth / 10
        log.warning("no server %d", tenth)
        log.info("kept %d", tenth)
    logging.getLogger("shop").warning("mine")

    lines = stream.getvalue().splitlines()
    warnings = [line for line in lines if "no server" in line]
    assert 20 <= len(warnings) <= 22
    assert (
        sum(int(line.rpartition("kept_back=")[2]) for line in warnings if "kept_back" in line) >= 70
    )
    assert sum("kept " in line for line in lines) == 100
    assert "mine" in lines[-1]


def test_reason_of_an_exit_is_written_after_many_warnings(written):
    stream = written()
    log = logging.getLogger("pgsluice.worker.process.process")

    for _ in range(10):
        log.warning("no server")
    log.critical("queue forward does not exist")

    assert "CRITICAL pgsluice.worker.process.process: queue forward" in stream.getvalue()


def test_quotes_and_line_breaks_of_a_quoted_value_are_escaped(written):
    stream = written()

    logging.getLogger("pgsluice.worker").warning(
        'listen failed queue=%s error="%s" share=100%% hint="%s"',
        "orders",
        'relation "q"\ndoes not exist',
        "x",
    )

    assert stream.getvalue().endswith(
        'queue=orders error="relation \\"q\\"\\ndoes not exist" share=100% hint="x"\n'
    )


@pytest.mark.parametrize("name", ["pgsluice.worker", "the.users.own"])
def test_a_text_line_has_no_control_characters_and_forges_no_other_line(written, name):
    stream = written()
    evil = "\x1b[2J\x07\n2026-11-26T00:00:00.000Z INFO pgsluice: all is well\u202e\x9b"

    try:
        raise ValueError(evil)  # noqa: TRY301 - only its log line matters
    except ValueError:
        logging.getLogger(name).exception("queue=%s failed", evil, extra={"queue": evil})

    lines = stream.getvalue().splitlines()
    assert all(line.isprintable() for line in lines)
    assert all(line.startswith("    ") for line in lines[1:])
    assert "ERROR" in lines[0]


def test_a_json_line_is_plain_text(written):
    stream = written("json")
    evil = "\x1b[2J\u202e\x9b\n"

    logging.getLogger("the.users.own").error("%s", evil)

    (line,) = stream.getvalue().splitlines()
    assert line.isprintable()
    assert json.loads(line)["message"] == evil
