"""sluice.set_queue_options: the retention of the archive."""

import psycopg
import pytest

from support import rows
from support.queue_options import set_queue_options

QUERY = "select queue_name, archive_retention::text from sluice.queue_settings"


def test_a_retention_is_set_changed_and_taken_away(orders):
    assert rows(orders, QUERY) == []

    set_queue_options(orders, "orders", archive_retention="30 days")
    assert rows(orders, QUERY) == [("orders", "30 days")]
    set_queue_options(orders, "ORDERS", archive_retention=3600)
    assert rows(orders, QUERY) == [("orders", "01:00:00")]
    set_queue_options(orders, "orders", archive_retention="0")
    assert rows(orders, QUERY) == [("orders", "00:00:00")]
    set_queue_options(orders, "orders", archive_retention=None)
    assert rows(orders, QUERY) == [("orders", None)]


@pytest.mark.parametrize(
    ("retention", "sqlstate", "message"),
    [
        ("-1 day", "22023", "archive_retention is negative: -1 days"),
        ("300000 years", "22008", "timestamp out of range"),
    ],
)
def test_invalid_retention_is_refused(orders, retention, sqlstate, message):
    with pytest.raises(psycopg.Error) as caught:
        set_queue_options(orders, "orders", archive_retention=retention)

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (sqlstate, message)
    assert rows(orders, QUERY) == []
