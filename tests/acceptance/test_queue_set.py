"""`pgsluice queue set` and `show`: the options of a queue, on a real server."""

from __future__ import annotations

import json

import pytest

from pgsluice import QueueOptions

DEFAULTS = {
    "queue_name": "orders",
    "paused_at": None,
    "paused_by": None,
    "pause_reason": None,
    "archive_retention_s": None,
    "max_attempts": 5,
    "backoff": "exponential",
    "backoff_base_s": 1.0,
    "backoff_max_s": 300.0,
    "backoff_jitter": True,
    "backoff_factor": 2.0,
    "deduplication_window_s": None,
    "deduplication_until": None,
    "on_duplicate": None,
    "deduplication_by": None,
    "fleet_concurrency": None,
    "key_concurrency": None,
    "rate": None,
    "rate_interval_s": None,
    "when_waiting": None,
    "priority_weights": None,
    "limits_by": None,
}
CHANGES = [
    (["archive_retention=30d"], {"archive_retention_s": 2592000.0}),
    (["max_attempts=3"], {"max_attempts": 3}),
    (["backoff=linear"], {"backoff": "linear"}),
    (["backoff_base=1.5s"], {"backoff_base_s": 1.5}),
    (["backoff_max=1d"], {"backoff_max_s": 86400.0}),
    (["backoff_jitter=false"], {"backoff_jitter": False}),
    (["backoff_factor=1.5"], {"backoff_factor": 1.5}),
    (["deduplication_window=5m"], {"deduplication_window_s": 300.0}),
    (["deduplication_until=done"], {"deduplication_until": "done"}),
    (["on_duplicate=replace"], {"on_duplicate": "replace"}),
    (["fleet_concurrency=5"], {"fleet_concurrency": 5}),
    (["key_concurrency=2"], {"key_concurrency": 2}),
    (["rate=100"], {"rate": 100, "rate_interval_s": 1.0}),
    (["rate=100/s"], {"rate": 100, "rate_interval_s": 1.0}),
    (["rate=5/10m"], {"rate": 5, "rate_interval_s": 600.0}),
    (["rate=7", "rate_interval=1h"], {"rate": 7, "rate_interval_s": 3600.0}),
    (["when_waiting=skip"], {"when_waiting": "skip"}),
    (["priority_weights=16,4,1"], {"priority_weights": [16, 4, 1]}),
]


@pytest.fixture
def orders(command):
    """Change options of the queue `orders`; return the completed command."""
    command("queue", "create", "orders", "--archive-retention", "forever")

    def change(*settings, **how):
        return command("queue", "set", "orders", *settings, **how)

    return change


@pytest.fixture
def shown(command):
    """Return the options of the queue `orders` as JSON shows them."""

    def show():
        options = json.loads(command("queue", "show", "orders", "--json").stdout)
        lists = ("partitions", "exports", "streams", "replays", "handlers", "blocked_keys")
        assert [options.pop(name) for name in lists] == [[]] * len(lists)
        return options

    return show


def test_queue_without_options_is_shown_with_the_defaults(orders, shown):
    assert shown() == DEFAULTS


@pytest.mark.parametrize(("settings", "changed"), CHANGES, ids=lambda of: " ".join(of))
def test_option_is_set_and_reset_by_an_empty_value(orders, shown, settings, changed):
    done = orders(*settings)

    assert (done.stdout, done.stderr) == ("", "")
    assert shown() == DEFAULTS | changed

    orders(f"{settings[0].partition('=')[0]}=")

    assert shown() == DEFAULTS


def test_pause_with_a_reason_is_set_and_reset_by_an_empty_value(orders, shown):
    orders("paused=true", "pause_reason=bank is down")

    paused = shown()
    assert paused["paused_at"] is not None
    assert paused["paused_by"].startswith("role ")
    assert paused["pause_reason"] == "bank is down"

    orders("paused=")

    assert shown() == DEFAULTS


def test_each_option_of_a_queue_is_set_by_a_test():
    tested = {setting.partition("=")[0] for settings, _ in CHANGES for setting in settings}

    assert tested | {"paused", "pause_reason"} == set(QueueOptions.__annotations__)


def test_help_names_each_option(command):
    printed = command("queue", "set", "--help").stdout

    # The help explains rate_interval with rate.
    for name in QueueOptions.__annotations__.keys() - {"rate_interval"}:
        assert f"  {name} " in printed


def test_options_that_are_not_given_keep_their_values(orders, shown):
    orders("max_attempts=3", "fleet_concurrency=5", "rate=100/2m")
    orders("max-attempts=4", "rate=")

    assert shown() == DEFAULTS | {"max_attempts": 4, "fleet_concurrency": 5}


def test_table_has_a_row_for_each_option(orders, command):
    orders("backoff_base=2s", "priority_weights=16,4,1", "archive_retention=30d")

    printed = command("queue", "show", "Orders").stdout

    values = dict(line.split(maxsplit=1) for line in printed.splitlines() if len(line.split()) > 1)
    assert values["backoff_base"].strip() == "0:00:02"
    assert values["priority_weights"].strip() == "[16, 4, 1]"
    assert values["archive_retention"].strip() == "30 days, 0:00:00"


def test_options_that_are_set_already_are_said_to_be(orders):
    orders("max_attempts=3")

    assert "queue 'orders' has these options already" in orders("max_attempts=3").stderr


def test_archive_is_kept_forever_again(orders, shown):
    orders("archive_retention=30d")
    orders("archive-retention=forever")

    assert shown() == DEFAULTS


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["max_attempt=3"], "No such option 'max_attempt'. Did you mean 'max_attempts'?"),
        (["color=red"], "No such option 'color'. There are: paused, pause_reason,"),
        (["max_attempts"], "'max_attempts' is not a setting; write NAME=VALUE"),
        ([], "Missing argument 'NAME=VALUE...'"),
        (["rate=1", "rate=2"], "rate is given twice"),
        (["rate=1/s", "rate_interval=1m"], "rate_interval is given twice"),
        (["backoff-max=1m", "backoff_max=2m"], "backoff_max is given twice"),
        (["paused=perhaps"], "paused: 'perhaps' is not a valid boolean"),
        (["max_attempts=many"], "max_attempts: 'many' is not a valid integer"),
        (["max_attempts=0"], "a retry policy cannot have max_attempts 0"),
        (["max_attempts=forever"], "max_attempts: 'forever' is not a valid integer"),
        (["backoff=fast"], "backoff: 'fast' is not one of 'constant', 'linear', 'exponential'"),
        (["backoff_base=soon"], "backoff_base: 'soon' is not a valid duration"),
        (["backoff_max=forever"], "backoff_max: 'forever' is not a valid duration"),
        (["deduplication_window=forever"], "deduplication_window: 'forever' is not a valid"),
        (["deduplication_window=0"], "deduplication_window is not positive"),
        (["backoff_factor=0.5"], "a retry policy cannot have a backoff_factor of 0.5"),
        (["archive_retention=3x"], "archive_retention: '3x' is not a valid duration"),
        (["archive_retention=-1d"], "archive_retention: '-1d' is not a valid duration"),
        (["fleet_concurrency=0"], "fleet_concurrency is 0"),
        (["rate=x/s"], "rate: 'x' is not a valid integer"),
        (["rate=/s"], "rate: '/s' is not a valid integer"),
        (["rate=100/"], "rate: '100/' is not a valid integer"),
        (["rate=100/x"], "rate_interval: '1x' is not a valid duration"),
        (["rate=100/0s"], "rate_interval is 00:00:00"),
        (["when_waiting=wait"], "when_waiting: 'wait' is not one of 'block', 'skip', 'park'"),
        (["priority_weights=16;4"], "priority_weights: '16;4' is not a valid integer"),
        (["priority_weights=1"], "priority_weights are {1}"),
        (["when_waiting=skip", "priority_weights=2,1"], "priorities or limits of its keys, not"),
        (["max_attempts=3", "rate=0"], "rate is 0"),
    ],
    ids=lambda of: " ".join(of) if isinstance(of, list) else "",
)
def test_invalid_option_is_named_and_nothing_is_changed(orders, shown, settings, words):
    assert words in orders(*settings, code=2).stderr
    assert shown() == DEFAULTS


def test_retention_that_deletes_archived_messages_needs_confirmation(command, orders, shown):
    command("queue", "send", "orders", "1")
    command("queue", "archive", "orders", "1")

    assert "confirm with --yes" in orders("archive_retention=0", "max_attempts=3", code=2).stderr
    assert shown() == DEFAULTS

    orders("archive_retention=1h")
    assert shown()["archive_retention_s"] == 3600.0
    orders("archive_retention=0", "--yes")
    assert shown()["archive_retention_s"] == 0.0


def test_missing_queue_is_named(command):
    for arguments in (["set", "nope", "paused=true"], ["show", "nope"]):
        printed = command("queue", *arguments, code=3).stderr
        assert "queue 'nope' does not exist; create it with: pgsluice queue create nope" in printed
