from datetime import timedelta

from support import rows


def test_every_log_has_a_policy_and_the_default_has_no_limits(connection):
    connection.execute("select pgq.create_queue('a'), pgq.create_queue('b')")
    connection.execute("select sluice.set_log_policy('b', 1000, 100, '1 day', '{y,x}')")

    cursor = connection.execute("select * from sluice.list_log_policies()")

    assert [c.name for c in cursor.description] == [
        "queue_name",
        "max_lag_bytes",
        "max_lag_events",
        "max_lag_time",
        "keepers",
    ]
    assert rows(connection, "select * from sluice.list_log_policies()") == [
        ("a", None, None, None, []),
        ("b", 1000, 100, timedelta(days=1), ["x", "y"]),
    ]
