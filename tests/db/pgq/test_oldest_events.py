"""See tests/db/sluice/test_list_consumers.py for what the lag of a consumer is."""

from support import value


def test_first_event_after_each_snapshot_for_its_owner_or_for_any(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select pgq.register_consumer('changes', 'one')")
    snapshots = [value(connection, "select pg_current_snapshot()::text")]
    for day in (1, 2):
        connection.execute(
            "select pgq.insert_event_raw('changes', null, %s, null, null, 't', 'd', null, null, null, null)",
            (f"2026-01-0{day} 00:00:00+00",),
        )
        snapshots.append(value(connection, "select pg_current_snapshot()::text"))
    connection.execute("update pgq.event_1 set ev_owner = 7 where ev_time > '2026-01-02'")

    def days(owner):
        return value(
            connection,
            "select array(select extract(day from t at time zone 'UTC')::integer from unnest("
            "pgq._oldest_events(1, %s::pg_snapshot[], array_fill(%s::integer, array[3]))) as t)",
            snapshots,
            owner,
        )

    assert days(None) == [1, 2, None]
    assert days(7) == [1, 2, None]
    connection.execute("update pgq.event_1 set ev_owner = 7")
    assert days(8) == [None, None, None]
    assert days(7) == [1, 2, None]
