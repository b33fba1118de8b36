"""Sentences of explanations; those of real queues and logs are in tests/db/sluice/test_explain_*.py."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files

import pytest

from pgsluice.client import explanations
from pgsluice.client.explanations import explained
from pgsluice.client.sentences import SENTENCES

AT = datetime(2026, 1, 1, tzinfo=UTC)
FUNCTIONS = "\n".join(
    file.read_text()
    for file in files("pgsluice").joinpath("sql/sluice/functions/explain").iterdir()
    if file.name.endswith(".sql")
)


def fact(subject, section, cause, **detail):
    return explained([("state", None, "log", subject), (section, AT, cause, detail)])[1]


@pytest.mark.parametrize(
    ("section", "cause"),
    [(section, cause) for section, causes in SENTENCES.items() for cause in causes],
)
def test_each_cause_is_one_of_the_functions(section, cause):
    word = cause.removeprefix("group key ")
    assert f"'{cause}'" in FUNCTIONS or word in ("claimed", "parked", "retrying")
    assert SENTENCES[section][cause]


def test_a_command_belongs_to_a_sentence():
    assert all(cause in SENTENCES[section] for section, cause in explanations._COMMANDS)


def test_a_cause_of_a_later_schema_is_shown_as_it_is():
    assert fact({}, "reason", "something new", a=1).fact == "something new"


def test_a_hidden_key_has_no_name_and_no_command():
    shown = fact({"queue_name": "q", "key": "a b"}, "reason", "key parked", msg_id=7)
    assert shown.fact == "Message 7 failed and parked key 'a b'"
    assert shown.commands == ("pgsluice queue retry '--key=a b' q",)

    dashed = fact({"queue_name": "q", "key": "-x"}, "reason", "key parked", msg_id=7)
    assert dashed.commands == ("pgsluice queue retry --key=-x q",)

    hidden = fact({"queue_name": "q", "key": None}, "reason", "key parked", msg_id=7)
    assert hidden.fact == "Message 7 failed and parked its key"
    assert hidden.commands == ()


@pytest.mark.parametrize(
    ("cause", "detail", "sentence"),
    [
        ("expired leases", {"expired": 1}, "1 lease expired without an outcome"),
        ("expired leases", {"expired": 2}, "2 leases expired without an outcome, the first"),
        (
            "none",
            {"workers": 1, "source": "queue q"},
            "Nothing in the database holds it back, and 1 live worker is registered for queue q; the last report was made",
        ),
        (
            "consumer lag",
            {
                "consumer_name": "c",
                "lag_events": 2,
                "idle_s": 4000.0,
                "pinned_bytes": 30 * 1024**2,
            },
            "Consumer c is about 2 events behind the newest event and keeps 30 MB of segments (if it does not return, "
            "unregister it); it was last active",
        ),
        (
            "order",
            {"ahead": 1000, "at_least": True},
            "1000 visible messages or more with a lower id are claimed first",
        ),
        ("maintenance failure", {"task": "tick", "queue_name": "l", "group_name": "g", "error": None},
         "Maintenance task tick of l, share group g began to fail"),
    ],
)  # fmt: skip
def test_sentences_agree_with_their_numbers(cause, detail, sentence):
    assert fact({"queue_name": "l"}, "reason", cause, **detail).fact == sentence
