"""sluice.list_extra_maint: the extra maintenance functions of logs, in order."""

from __future__ import annotations

import psycopg
import pytest

from support import rows

LIST = "select log_name, function_name from sluice.list_extra_maint()"


def test_it_lists_the_functions_of_each_log_in_their_order(connection):
    connection.execute("select pgq.create_queue('b'), pgq.create_queue('a'), pgq.create_queue('c')")
    assert rows(connection, LIST) == []

    connection.execute(
        "update pgq.queue set queue_extra_maint = '{mine.second,mine.first}' where queue_name <> 'c'"
    )

    assert rows(connection, LIST) == [
        ("a", "mine.second"), ("a", "mine.first"), ("b", "mine.second"), ("b", "mine.first"),
    ]  # fmt: skip


def test_administrators_may_ask(connection, as_member):
    for member_of in ("pgq_admin", "sluice_admin"):
        assert as_member(member_of, LIST) == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", LIST)
