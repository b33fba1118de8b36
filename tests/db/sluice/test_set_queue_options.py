"""sluice.set_queue_options, with _queue_settings, _with_options and _registered_name.

Each subject has its own file: test_set_queue_options_limits.py and the others of this name.
"""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support import rows, value, wait_for_lock
from support.queue_options import NO_LIMITS, set_queue_options

SETTINGS = "select * from sluice.queue_settings"
# All options with a value that is not the default.
OPTIONS = {
    "paused": True,
    "pause_reason": "bank is down",
    "archive_retention": "30 days",
    "max_attempts": 3,
    "backoff": "linear",
    "backoff_base": 2,
    "backoff_max": "1 hour",
    "backoff_jitter": False,
    "backoff_factor": 1.5,
    "deduplication_window": 300.5,
    "fleet_concurrency": 10,
    "key_concurrency": 1,
    "rate": 100,
    "rate_interval": "1 minute",
    "when_waiting": "skip",
}


def stored(connection, *names):
    ((found,),) = rows(connection, "select to_jsonb(s) from sluice.queue_settings as s")
    return {name: found[name] for name in names}


def error_of(connection, options, queue="orders"):
    with pytest.raises(psycopg.Error) as caught:
        set_queue_options(connection, queue, **options)
    assert caught.value.diag.message_hint
    return caught.value.sqlstate, caught.value.diag.message_primary


@pytest.mark.parametrize("option", OPTIONS)
def test_only_the_given_option_changes(orders, option):
    set_queue_options(orders, "orders", **OPTIONS)
    before = stored(orders, *OPTIONS.keys() - {"paused"})
    changed = {option}
    if option == "paused":
        changed = {"pause_reason"}
    elif option == "rate":
        changed = {"rate", "rate_interval"}

    assert set_queue_options(orders, "orders", **{option: None}) == "changed"

    after = stored(orders, *before)
    reset = {"rate_interval": "00:00:01"} if option == "rate_interval" else {}
    assert {name: after[name] for name in changed} == dict.fromkeys(changed) | reset
    assert {name for name in before if after[name] != before[name]} == changed


def test_values_are_cast_and_the_row_is_found_by_any_spelling_of_the_name(orders):
    orders.execute("set intervalstyle = 'postgres'")

    assert set_queue_options(orders, "ORDERS", **OPTIONS) == "changed"

    assert value(orders, "select queue_name from sluice.queue_settings") == "orders"
    kept = OPTIONS.keys() - {"paused", "backoff_base", "backoff_max", "archive_retention"}
    intervals = {
        "backoff_base": "00:00:02",
        "backoff_max": "01:00:00",
        "archive_retention": "30 days",
        "deduplication_window": "00:05:00.5",
        "rate_interval": "00:01:00",
    }
    wanted = {name: OPTIONS[name] for name in kept} | intervals
    assert stored(orders, *wanted) == wanted


def test_options_that_are_as_given_are_unchanged_and_write_nothing(orders):
    query = "select ctid, xmin::text from sluice.queue_settings"
    set_queue_options(orders, "orders", **OPTIONS)
    before = rows(orders, query)

    assert set_queue_options(orders, "orders", **OPTIONS) == "unchanged"
    assert set_queue_options(orders, "orders") == "unchanged"
    assert rows(orders, query) == before
    assert value(orders, "select count(*) from sluice.action") == 1

    assert set_queue_options(orders, "again", **NO_LIMITS, paused=None) == "unchanged"
    assert rows(orders, query) == before


def test_options_go_with_their_queue(orders):
    set_queue_options(orders, "orders", **OPTIONS)

    orders.execute("select pgmq.drop_queue('orders')")
    assert rows(orders, SETTINGS) == []
    orders.execute("select pgmq.create('orders')")

    assert rows(orders, SETTINGS) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rat": 1}, "queue 'orders' has no option 'rat'"),
        ({"queue_name": "again"}, "queue 'orders' has no option 'queue_name'"),
        ({"limits_by": "me"}, "queue 'orders' has no option 'limits_by'"),
        ({"rate": "x"}, "queue 'orders' cannot have rate \"x\""),
        ({"rate": 3000000000}, "queue 'orders' cannot have rate 3000000000"),
        ({"paused": "yes"}, "queue 'orders' cannot have paused \"yes\""),
        ({"paused": 1}, "queue 'orders' cannot have paused 1"),
        ({"archive_retention": "a while"}, "queue 'orders' cannot have archive_retention \"a while\""),
        ({"backoff_jitter": "maybe"}, "queue 'orders' cannot have backoff_jitter \"maybe\""),
        ({"priority_weights": "high"}, "queue 'orders' cannot have priority_weights \"high\""),
    ],
)  # fmt: skip
def test_unknown_option_and_value_of_another_type_are_refused(orders, options, message):
    assert error_of(orders, options | {"max_attempts": 3}) == ("22023", message)
    assert rows(orders, SETTINGS) == []


@pytest.mark.parametrize("options", ["null", "'[]'", "'1'", "'null'"])
def test_options_that_are_no_object_are_refused(orders, options):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="the options of queue 'orders'"):
        orders.execute(f"select sluice.set_queue_options('orders', {options})")


@pytest.mark.parametrize("options", [OPTIONS, dict.fromkeys(OPTIONS), {}, {"rat": 1}])
def test_missing_queue_is_named_with_the_statement_that_creates_it(connection, options):
    assert error_of(connection, options, "missing") == (
        "QU005",
        "queue 'missing' does not exist",
    )
    with pytest.raises(psycopg.Error) as caught:
        set_queue_options(connection, "nope", max_attempts=3)
    assert caught.value.diag.message_hint == (
        "create it with pgmq.create('nope'); pgmq.list_queues() lists the existing ones"
    )


@pytest.mark.parametrize("first_options", [{"max_attempts": 3}, {"fleet_concurrency": 5}])
def test_concurrent_changes_of_different_options_both_take_effect(orders, database, first_options):
    with database.connect() as first, database.connect() as other, ThreadPoolExecutor(1) as threads:
        with first.transaction():
            set_queue_options(first, "orders", **first_options)
            waiting = threads.submit(set_queue_options, other, "orders", archive_retention="1 day")
            wait_for_lock(orders, other)

        assert waiting.result(30) == "changed"

    wanted = first_options | {"archive_retention": "1 day"}
    assert stored(orders, *wanted) == wanted


def test_option_without_limits_waits_for_no_lock_of_the_queue(orders, database):
    """A build of indexes holds this lock; a pause must not wait for it."""
    with database.connect() as other, other.transaction():
        other.execute("select pgmq.acquire_queue_lock('orders')")
        orders.execute("set lock_timeout = '1s'")

        assert (
            set_queue_options(orders, "orders", paused=True, archive_retention="1 day") == "changed"
        )
        with pytest.raises(psycopg.errors.LockNotAvailable):
            set_queue_options(orders, "orders", fleet_concurrency=1)


@pytest.mark.parametrize(
    "option", ["paused", "max_attempts", "deduplication_window", "fleet_concurrency"]
)
def test_only_an_admin_sets_options(orders, as_member, option):
    set_queue_options(orders, "orders", **OPTIONS)
    query = f"select sluice.set_queue_options('orders', '{{\"{option}\": null}}')"
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)

    assert as_member("sluice_admin", query) == [("changed",)]


def test_members_do_not_write_the_table(orders, as_member):
    set_queue_options(orders, "orders", max_attempts=3)
    for member_of in ("sluice_admin", "sluice_reader", "sluice_writer", "sluice_monitor"):
        for change in (
            "delete from sluice.queue_settings",
            "update sluice.queue_settings set rate = 1",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member(member_of, change)
