"""sluice.list_actions, with note_action and _maintain_actions: who did what, and when."""

import json

import psycopg
import pytest

from support import rows, value
from support.queue_options import set_queue_options

LISTED = "select action, queue_name, filter, message_count, note from sluice.list_actions() order by action_id"


@pytest.mark.parametrize(
    ("call", "recorded"),
    [
        (
            'sluice.set_queue_options(\'ORDERS\', \'{"paused": true, "pause_reason": "why"}\')',
            ("set_queue_options", "orders", {"paused": True}, None, "why"),
        ),
        (
            "sluice.redrive('orders', filter => '{\"dead_letter_ids\": [1]}')",
            ("redrive", "orders", {"filter": {"dead_letter_ids": [1]}}, 1, None),
        ),
        (
            "sluice.redrive('orders', null, '{\"reason\": \"bad shape\"}', 'again')",
            (
                *("redrive", "orders"),
                *({"target_queue_name": "again", "filter": {"reason": "bad shape"}}, 1, None),
            ),
        ),
        (
            "sluice.redrive('orders')",
            ("redrive", "orders", None, 1, None),
        ),
        (
            "sluice.purge_dead_letters('orders', older_than => '0')",
            ("purge_dead_letters", "orders", {"older_than": "00:00:00"}, 1, None),
        ),
        (
            "sluice.replay('orders', array[1, 2])",
            ("replay", "orders", {"msg_ids": [1, 2]}, 2, None),
        ),
        (
            "sluice.start_replay('orders', conditional => '{\"n\": 1}')",
            ("start_replay", "orders", {"replay_id": 1, "conditional": {"n": 1}}, None, None),
        ),
        (
            'sluice.set_queue_options(\'orders\', \'{"archive_retention": "1 day", "rate": 3}\')',
            (
                *("set_queue_options", "orders"),
                *({"archive_retention": "1 day", "rate": 3}, None, None),
            ),
        ),
        (
            "sluice.set_queue_options('orders', '{\"max_attempts\": 3, \"backoff_base\": null}')",
            (
                *("set_queue_options", "orders"),
                *({"max_attempts": 3, "backoff_base": None}, None, None),
            ),
        ),
        (
            "sluice.set_queue_options('orders', '{\"deduplication_window\": 60}')",
            ("set_queue_options", "orders", {"deduplication_window": 60}, None, None),
        ),
        ("pgmq.drop_queue('orders')", ("drop_queue", "orders", None, None, None)),
        ("pgmq.purge_queue('orders')", ("purge_queue", "orders", None, 4, None)),
    ],
)
def test_action_on_a_queue_is_recorded(orders, call, recorded):
    orders.execute(f"select {call}")

    assert rows(orders, LISTED) == [recorded]


def test_resets_of_options_and_actions_on_schedules_are_recorded(orders):
    for paused in (True, None):
        set_queue_options(orders, "orders", paused=paused)
    for retention in ("1 day", None):
        set_queue_options(orders, "orders", archive_retention=retention)
    orders.execute("select sluice.schedule('nightly', 'orders', '{}', every => '1 hour')")
    for call in (
        *(
            "pause_schedule('nightly')",
            "pause_schedule('nightly', false)",
            "run_schedule('nightly')",
        ),
        "unschedule('nightly')",
    ):
        orders.execute(f"select sluice.{call}")

    assert [(row[0], row[2]) for row in rows(orders, LISTED)] == [
        ("set_queue_options", {"paused": True}),
        ("set_queue_options", {"paused": None}),
        ("set_queue_options", {"archive_retention": "1 day"}),
        ("set_queue_options", {"archive_retention": None}),
        ("pause_schedule", {"name": "nightly"}),
        ("resume_schedule", {"name": "nightly"}),
        ("run_schedule", {"name": "nightly"}),
        ("unschedule", {"name": "nightly"}),
    ]


def test_actions_on_logs_are_recorded(dead):
    dead.execute("create table account (id int primary key)")
    dead.execute("select sluice.capture('account', 'events')")
    for call in (
        "redrive('events', 'g', '{\"dead_letter_ids\": [1]}')",
        "redrive('events', 'g', '{\"reason\": \"bad\"}', qty => 1)",
        "purge_dead_letters('events', 'g', '0')",
        "drop_group('events', 'h')",
        "drop_capture('account', 'events')",
    ):
        dead.execute(f"select sluice.{call}")
    dead.execute("select pgq.register_consumer('events', 'c')")
    dead.execute(
        "select pgq.unregister_consumer('events', 'c'), pgq.unregister_consumer('events', 'c')"
    )
    dead.execute("select pgq.drop_queue('events', true)")

    assert rows(dead, LISTED) == [
        (
            *("redrive", "events"),
            *({"consumer_name": "g", "filter": {"dead_letter_ids": [1]}}, 1, None),
        ),
        ("redrive", "events", {"consumer_name": "g", "filter": {"reason": "bad"}}, 1, None),
        (
            *("purge_dead_letters", "events"),
            *({"consumer_name": "g", "older_than": "00:00:00"}, 4, None),
        ),
        ("drop_group", "events", {"group_name": "h"}, None, None),
        ("drop_capture", "events", {"source_table": "public.account"}, None, None),
        ("unregister_consumer", "events", {"consumer_name": "c"}, None, None),
        ("drop_group", "events", {"group_name": "g"}, None, None),
        ("drop_queue", "events", None, None, None),
    ]


def test_action_without_effect_or_of_a_failed_transaction_is_not_recorded(orders):
    for call in (
        "redrive('orders', filter => '{\"dead_letter_ids\": [99]}')",
        "purge_dead_letters('orders', older_than => '1 year')",
        "set_queue_options('orders', '{\"paused\": null}')",
        "set_queue_options('orders', '{\"rate\": 2}', 'a handler')",
        "unschedule('missing')",
    ):
        orders.execute(f"select sluice.{call}")
    with orders.transaction(force_rollback=True):
        set_queue_options(orders, "orders", paused=True)

    assert rows(orders, LISTED) == []


def test_first_hundred_ids_are_recorded(orders):
    orders.execute(
        "select sluice.redrive('orders', filter => %s)",
        (json.dumps({"dead_letter_ids": list(range(1, 102))}),),
    )

    ((_, _, chosen, count, _),) = rows(orders, LISTED)
    assert (chosen["filter"]["dead_letter_ids"], count) == (list(range(1, 101)), 1)


def test_actor_is_the_role_of_the_session_and_pages_are_newest_first(orders, role):
    orders.execute(f"grant sluice_admin to {role}")
    orders.execute(f"set role {role}")
    orders.execute("set application_name = 'a b'")
    for name in ("orders", "again"):
        set_queue_options(orders, name, paused=True)
    orders.execute("select pgmq.drop_queue('again')")
    orders.execute("reset role")

    query = "select action_id, actor, application, queue_name from sluice.list_actions"
    assert rows(orders, f"{query}()") == [
        (3, role, "a b", "again"),
        (2, role, "a b", "again"),
        (1, role, "a b", "orders"),
    ]
    assert [row[0] for row in rows(orders, f"{query}(qty => 1)")] == [3]
    assert [row[0] for row in rows(orders, f"{query}(before_action_id => 3, qty => 1)")] == [2]
    assert [row[0] for row in rows(orders, f"{query}('ORDERS')")] == [1]


def test_admins_list_actions_and_nobody_changes_them(orders, as_member):
    set_queue_options(orders, "orders", paused=True)

    for member_of in ("sluice_admin", "pgq_admin"):
        query = "select action from sluice.list_actions()"
        assert as_member(member_of, query) == [("set_queue_options",)]
        for change in ("delete from sluice.action", "update sluice.action set actor = 'me'"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member(member_of, change)
    for member_of in ("sluice_reader", "sluice_monitor", "sluice_writer"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, "select * from sluice.list_actions()")


def test_maintenance_removes_actions_after_90_days(orders):
    for name in ("orders", "again"):
        set_queue_options(orders, name, paused=True)
    orders.execute(
        "update sluice.action set acted_at = acted_at - interval '91 days' where queue_name = 'orders'"
    )
    query = "select task, done, detail from sluice._maintain_actions()"

    assert rows(orders, query) == [
        ("actions", True, "1 records of actions older than 90 days removed")
    ]
    assert rows(orders, query) == []
    assert value(orders, "select string_agg(queue_name, ',') from sluice.action") == "again"
