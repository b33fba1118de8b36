import psycopg
import pytest

from support import rows
from support.queue_options import set_queue_options


def test_queues_with_a_fleet_concurrency_or_a_rate_are_listed_by_name_with_their_usage(
    orders, as_member
):
    set_queue_options(orders, "orders", fleet_concurrency=9, key_concurrency=2)
    set_queue_options(
        orders, "again", rate=7, rate_interval="1 hour", priority_weights=[2, 1], max_attempts=3
    )
    for name, options in (("keys", {"key_concurrency": 1}), ("kept", {"archive_retention": 1})):
        orders.execute("select pgmq.create(%s)", (name,))
        set_queue_options(orders, name, **options)
    orders.execute("select pgmq.send_batch('again', '{1, 2, 3}')")
    orders.execute("select sluice.claim_messages('again', 30, 2)")
    orders.execute("update sluice.queue_start set started_at = started_at - interval '2 hours'")
    orders.execute("select sluice.claim_messages('again', 30, 2)")
    wanted = [("again", None, 1), ("orders", 1, None)]

    query = "select queue_name, in_flight, started from sluice.list_limit_usage()"
    assert rows(orders, query) == wanted
    for member_of in ("sluice_admin", "sluice_monitor", "sluice_reader"):
        assert as_member(member_of, query) == wanted
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", query)
