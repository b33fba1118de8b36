"""Each sentence of explanations, and each count in pages, read as a person on call reads them."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import product

import pytest

from pgsluice.client.sentences import SENTENCES, Values, sentence

TEXTS = {
    "queue_name": "orders",
    "log_name": "orders",
    "group_name": "mailer",
    "consumer_name": "etl",
    "name": "nightly",
    "target": "queue",
    "source": "queue orders",
    "session": "pid 7, role app",
    "paused_by": "alice",
    "handler": "ship",
    "app": "shop",
    "host": "db-7",
    "kind": "events",
    "lake": "/lake",
    "pipeline": "events",
    "held_by": "pid 7, role app",
    "export_name": "lake",
    "stream_name": "spark",
    "task": "rotate",
    "rate_interval": "00:00:01",
}
# Hidden from monitors, or not always known.
MAY_BE_NONE = {
    "key": "a",
    "error": "no address",
    "error_type": "KeyError",
    "reason": "bad shape",
    "pause_reason": "bank is down",
    "lost": "lag of 1 events exceeds the limit of 0",
    "worker": "host-7",
    "ev_type": "order",
}
NUMBERS = (
    "msg_id", "ev_id", "newest_msg_id", "newest_ev_id", "first_msg_id", "read_ct", "length", "visible", "in_flight",
    "retrying", "delayed", "messages", "parked", "waiting", "waiting_keys", "lag_events", "leased", "dead", "attempts",
    "max_attempts", "attempt", "claim_id", "events", "settled", "renewals", "expired", "ahead", "others", "workers",
    "fleet_concurrency", "rate", "row_count", "tick_id", "last_tick", "batch", "batch_id", "accepted", "dead_lettered",
    "pid", "idle_s", "pinned_bytes",
)  # fmt: skip
FLAGS = (
    "is_expired", "has_end", "at_least", "is_searched", "is_running", "in_queue", "is_verified", "is_visible", "is_live",
    "is_external",
)  # fmt: skip
STATES = (
    "ready", "delayed", "retrying", "released", "in flight", "archived", "dead", "gone", "unknown", "unordered", "parked",
    "claimed", "waiting", "empty", "paused", "ended", "failing",
)  # fmt: skip
NOUNS = (
    "messages|events|keys|leases|workers|rows|others|attempts|times|letters|claims|segments|queues|schedules|consumers|"
    "deliveries|characters|files|commands|pipelines|characters|errors|calls"
)
WRONG = {
    "a plural for one": re.compile(rf"(?<![\d.,])1 (?:(?!has )[a-z]+ )?(?:{NOUNS})\b"),
    "a doubled word": re.compile(r"\b([A-Za-z]+) \1\b"),
    "a missing value": re.compile(r"\bNone\b|\{|\}"),
    "an empty name": re.compile(r"''|\"\"|  |\( *\)|: *$| $|^ |,,| ,"),
}


def examples() -> list[tuple[str, str, str]]:
    """Return every sentence with values of all kinds: section, cause, text."""
    found = set()
    for section, causes in SENTENCES.items():
        for cause, state, number, flag, is_known in product(
            causes, STATES, (0, 1, 2), (False, True), (False, True)
        ):
            values = Values(
                TEXTS
                | {name: text if is_known else None for name, text in MAY_BE_NONE.items()}
                | dict.fromkeys(NUMBERS, number)
                | dict.fromkeys(FLAGS, flag)
                | {"state": state, "schedule": None, "origin": None}
                | {"msg_ids": list(range(1, max(number, 1) + 1)), "after_queue": "first"}
            )
            # Facts that are never told with none.
            if cause.startswith("key of "):  # asked for by its key
                values["key"] = "a"
            if number == 0:
                values["at_least"] = False
                values |= {
                    "expired": 1,
                    "ahead": 1,
                    "waiting": 1,
                    "parked": 1,
                    "dead": 1,
                    "events": 1,
                    "read_ct": 1,
                }
            found.add((section, cause, sentence(section, cause, values)))
    return sorted(found)


@pytest.mark.parametrize("problem", WRONG)
def test_no_sentence_has(problem):
    wrong = [each for each in examples() if WRONG[problem].search(each[2])]

    # An error text of the database is quoted as it is.
    assert [each for each in wrong if "lag of 1 events" not in each[2]] == []


def test_sentences_of_all_states_are_examples():
    texts = {text for _, _, text in examples()}

    for expected in (
        "Message 2 is in queue orders: it was released unprocessed, with a delay; it becomes visible",
        "It was released unprocessed, which counts as no attempt; its delay ends",
        "1 lease expired without an outcome",
        "2 leases expired without an outcome, the first",
        "1 key parked",
        "1 visible message with a lower id is claimed first",
        "2 visible messages with a lower id are claimed first",
        "Message 1 of key 'a' is in flight with 1 other, the limit of the key; its lease ends",
        "Log orders never had an event",
        "1 of 1 attempt used",
        "It failed; its back-off before attempt 2 of 2 ends",
        "It failed; its back-off ends",
        "2 rows since its start, by its last report",
    ):
        assert expected in texts


def test_no_page_has_a_plural_after_a_count_that_may_be_one():
    plural = re.compile(
        rf"(?<!of )(?<!Search )(?<!Searched )(?<!first )\{{\{{[^}}]*\| number[^}}]*\}}\}} (?:[a-z]+ )?(?:{NOUNS})\b"
    )
    pages = files("pgsluice").joinpath("dashboard/templates")

    found = {
        (page.name, match[0])
        for page in pages.iterdir()
        for match in plural.finditer(page.read_text(encoding="utf-8"))
    }

    assert found == set()
