"""sluice.note_action: record an action of an operator for sluice.list_actions."""

from __future__ import annotations

import psycopg
import pytest

from support import rows

LISTED = "select action, queue_name, filter, message_count, note from sluice.list_actions()"
NOTE = "select sluice.note_action('send', 'orders', '{\"msg_id\": 7, \"vt\": null}', 1, 'by hand')"


def test_action_is_recorded_without_its_null_arguments(connection):
    connection.execute(NOTE)

    assert rows(connection, LISTED) == [("send", "orders", {"msg_id": 7}, 1, "by hand")]


def test_action_needs_its_name_alone(connection):
    connection.execute("select sluice.note_action('reviewed')")

    assert rows(connection, LISTED) == [("reviewed", None, None, None, None)]


def test_action_of_a_failed_transaction_is_not_recorded(connection):
    with connection.transaction(force_rollback=True):
        connection.execute(NOTE)

    assert rows(connection, LISTED) == []


def test_only_admins_record_actions(as_member):
    for member_of in ("sluice_admin", "pgq_admin"):
        as_member(member_of, NOTE)
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, NOTE)
