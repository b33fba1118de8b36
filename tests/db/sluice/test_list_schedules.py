"""sluice.list_schedules: all schedules, for roles that may read messages."""

import psycopg
import pytest

from support.schedules import schedule


def test_all_are_listed_by_name_for_those_who_read_messages(orders, as_member):
    for name in ("b", "a", "C"):
        schedule(orders, name, every="1 hour")

    query = "select name from sluice.list_schedules()"
    assert sorted(as_member("sluice_reader", query)) == [("C",), ("a",), ("b",)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", query)
