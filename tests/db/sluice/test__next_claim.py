from support import rows, value
from support.share_groups import claim, send_many


def test_the_next_claim_begins_where_the_last_one_ended_and_has_nothing(connection, group):
    send_many(connection, 5)
    claim(connection, 3)
    last = "sluice._last_claim((select group_id from sluice.share_group))"

    found = rows(
        connection,
        f"""select n.claim_id > l.claim_id, n.lease_until, n.events, n.redeliveries,
                n.from_ev_id = l.upto_ev_id, n.from_due = l.upto_due, n.from_redelivery = l.upto_redelivery
            from {last} as l, sluice._next_claim(l) as n""",
    )

    assert found == [(True, None, 0, 0, True, True, True)]


def test_its_number_is_above_all_that_were_given_before_a_crash(connection, group):
    microseconds = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"
    last = "sluice._last_claim((select group_id from sluice.share_group))"

    assert value(connection, f"with t as materialized (select {microseconds} as now) "
                 f"select (sluice._next_claim({last})).claim_id >= t.now from t")  # fmt: skip
