"""Commands for partitioned queues, as used by a shell script."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def pgsluice(command):
    return lambda *arguments, code=0: command(*arguments, code=code).stdout


def test_a_queue_is_created_in_partitions_shown_and_maintained(pgsluice, database_18):
    options = ("--partitioned", "--interval", "10", "--retention", "none", "--premake", "1")
    pgsluice("queue", "create", "orders", *options)
    pgsluice("queue", "send", "orders", *map(str, range(47)))

    assert pgsluice("maintain", "--once", "--json").count('"done": true') >= 2
    steps = json.loads(pgsluice("maintain", "--once", "--json"))
    assert steps == []
    assert pgsluice("maintain", "--once") == "nothing to do\n"

    shown = json.loads(pgsluice("queue", "show", "orders", "--json"))["partitions"]
    assert [(p["starts_at"], p["ends_at"]) for p in shown if p["relation"] == "queue"] == [
        ("0", "10"),
        ("10", "20"),
        ("20", "50"),
        ("50", "60"),
        (None, None),
    ]
    assert "q_orders_default" in pgsluice("queue", "show", "orders")
    with database_18.connect() as connection:
        settings = connection.execute(
            "select distinct partition_interval, retention_interval, premake from sluice.partitioned_table"
        ).fetchall()
    assert settings == [("10", None, 1)]


@pytest.mark.slow
def test_all_there_is_to_do_is_done_in_one_call(pgsluice, database_18):
    pgsluice("queue", "create", "orders", "--partitioned", "--interval", "10", "--premake", "30")
    with database_18.connect() as connection:
        connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[300]))")
        connection.execute("delete from pgmq.q_orders")

    dropped = [
        step
        for step in json.loads(pgsluice("maintain", "--once", "--json"))
        if "drop" in step["task"]
    ]

    assert len(dropped) == 30


def test_abandoned_partition_is_shown_and_sets_the_exit_code(pgsluice, database_18):
    pgsluice("queue", "create", "orders", "--partitioned", "--interval", "10", "--premake", "1")
    with database_18.connect(autocommit=False) as sender:
        sender.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[15]))")

        left = json.loads(pgsluice("maintain", "--once", "--json", code=1))[-1]

        assert (left["done"], left["detail"]) == (
            False,
            "q_orders is in use; the next call tries again",
        )


def test_options_of_partitions_need_partitioned(pgsluice):
    pgsluice("queue", "create", "orders", "--interval", "10", code=2)
    pgsluice("queue", "create", "orders")
    assert "no partitions\n" in pgsluice("queue", "show", "orders")
