"""sluice._forget_settled; test_after_restore.py covers its use."""

from support import rows
from support.share_groups import GROUP, create_group, make_log, send_many


def test_claims_that_are_open_unread_or_the_newest_stay(connection):
    make_log(connection)
    create_group(connection)
    create_group(connection, "other")
    send_many(connection, 4)
    claims = {}
    for name in ("settled", "open", "unread", "newest"):
        claims[name] = rows(connection, "select claim_id from sluice.claim('changes', %s)", GROUP)[
            0
        ][0]
    for name, outcome in (("settled", "accept"), ("unread", "release"), ("newest", "accept")):
        connection.execute(
            "select sluice.acknowledge('changes', %s, %s, %s)", [GROUP, claims[name], outcome]
        )

    connection.execute("select sluice._forget_settled(1)")

    kept = rows(connection, "select claim_id from sluice.claim where group_id = 1 order by 1")
    assert kept == [(claims[name],) for name in ("open", "unread", "newest")]
    assert rows(connection, "select claim_id from sluice.outcome order by 1") == [
        (claims["unread"],),
        (claims["newest"],),
    ]
    assert rows(connection, "select count(*) from sluice.claim where group_id = 2") == [(1,)]
