"""sluice.create_queue: queues whose archives do not grow for ever."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from pgsluice import WorkQueue
from support import value
from support.log import error_of

KEPT = "select archive_retention from sluice.queue_options(%s)"


def test_archive_is_kept_for_seven_days_unless_given(connection):
    assert value(connection, "select sluice.create_queue('orders')") is True
    assert value(connection, "select sluice.create_queue('short', interval '1 hour')") is True
    assert value(connection, "select sluice.create_queue('long', null::interval, true)") is True

    assert value(connection, KEPT, "orders") == timedelta(days=7)
    assert value(connection, KEPT, "short") == timedelta(hours=1)
    assert value(connection, KEPT, "long") is None
    assert value(connection, "select is_unlogged from pgmq.meta where queue_name = 'long'") is True


def test_existing_queue_keeps_its_options(connection):
    connection.execute("select pgmq.create('orders')")

    assert value(connection, "select sluice.create_queue('orders')") is False

    assert value(connection, KEPT, "orders") is None


def test_negative_retention_and_invalid_name_create_nothing(connection):
    error = error_of(connection, "select sluice.create_queue('orders', interval '-1 s')")
    assert error[0] == "22023"
    error = error_of(connection, "select sluice.create_queue('')")
    assert error[0] is not None
    assert value(connection, "select count(*) from pgmq.meta") == 0


def test_client_creates_queues_with_a_retention(connection):
    work = WorkQueue(connection)

    assert work.create("orders") is True
    assert work.create("orders", archive_retention=None) is False
    assert work.create_unlogged("quick", archive_retention=timedelta(hours=2)) is True

    assert work.queue_options("orders").archive_retention == timedelta(days=7)
    assert work.queue_options("quick").archive_retention == timedelta(hours=2)


def test_role_without_rights_may_not_create(connection):
    connection.execute("create role visitor; grant usage on schema sluice to visitor")
    connection.execute("set role visitor")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select sluice.create_queue('orders')")
