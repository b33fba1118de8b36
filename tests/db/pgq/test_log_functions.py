import pytest

from support import replace_in, rows, value

OWN = """select p.proname from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
    where n.nspname = 'pgq' and p.proname ~ '^(event|tick)_[0-9]+_' order by 1"""
ANY = "select pgq.event_1_any(%s::pg_snapshot, %s::pg_snapshot)"


def insert(connection, *txids, segment=0):
    for txid in txids:
        connection.execute(
            f"insert into pgq.event_1_{segment} (ev_time, ev_txid, ev_type) values (now(), %s::text::xid8, 't')",
            (txid,),
        )


def test_a_log_has_functions_of_its_own_until_it_is_dropped(connection, log):
    own = [
        "event_1_any", "event_1_claimed", "event_1_next", "event_1_outside", "tick_1_after", "tick_1_last",
        "tick_1_window",
    ]  # fmt: skip
    assert [name for (name,) in rows(connection, OWN)] == own

    connection.execute("select pgq.drop_queue('changes')")

    assert rows(connection, OWN) == []


def test_log_functions_have_a_search_path_a_comment_and_no_public_grant(connection, log):
    wrong = rows(
        connection,
        """select p.proname from pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace and p.proname ~ '^(event|tick)_[0-9]+_'
          and (not p.proconfig @> array['search_path=pg_catalog, pg_temp'] or p.prosecdef
            or obj_description(p.oid, 'pg_proc') is null
            or pg_get_userbyid(p.proowner) <> 'sluice_owner'
            or exists (select from aclexplode(p.proacl) as a where a.grantee = 0))""",
    )
    assert wrong == []


CASES = [
    ([], "100:100:", "200:200:", False),
    ([100], "100:100:", "200:200:", True),
    ([99], "100:100:", "200:200:", False),
    ([199], "100:100:", "200:200:", True),
    ([200], "100:100:", "200:200:", False),
    # Running at the second snapshot.
    ([150], "100:100:", "150:200:150", False),
    ([149], "100:100:", "150:200:150", True),
    ([151], "100:100:", "150:200:150", True),
    ([100, 150, 199], "100:100:", "100:200:100,150,199", False),
    ([100, 101, 150, 199], "100:100:", "100:200:100,150,199", True),
    # Running at the first snapshot: found if it has ended at the second.
    ([90], "90:100:90", "90:200:90", False),
    ([90], "90:100:90,95", "95:200:95", True),
    ([95], "90:100:90,95", "95:200:95", False),
    ([91], "90:100:90,95", "200:200:", False),
    # Beyond 32 bits.
    ([2**32 + 5], f"{2**32 - 10}:{2**32 - 1}:", f"{2**32 + 6}:{2**32 + 6}:", True),
    ([5], f"{2**32 - 10}:{2**32 - 1}:", f"{2**32 + 6}:{2**32 + 6}:", False),
]


def check_any(connection, txids, after, upto, found):
    insert(connection, *txids, segment=1)

    assert value(connection, ANY, after, upto) is found
    # The definition: visible in the second snapshot and not in the first.
    assert found is value(
        connection,
        """select exists (
            select from pgq.event_1
            where pg_visible_in_snapshot(ev_txid, %s::pg_snapshot) and not pg_visible_in_snapshot(ev_txid, %s::pg_snapshot)
        )""",
        upto,
        after,
    )


@pytest.mark.parametrize(("txids", "after", "upto", "found"), CASES)
def test_any_says_whether_a_batch_has_events(connection, log, txids, after, upto, found):
    check_any(connection, txids, after, upto, found)


def check_all(connection):
    for case in CASES:
        with connection.transaction(force_rollback=True):
            check_any(connection, *case)


NONE_RUNNING = "if pg_snapshot_xmin(i_upto) = pg_snapshot_xmax(i_upto) then"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(NONE_RUNNING, "if true then", id="open transactions are read"),
        pytest.param(
            "e.ev_txid < pg_snapshot_xmax(i_upto)\n        ) then",
            "e.ev_txid <= pg_snapshot_xmax(i_upto)\n        ) then",
            id="the first transaction after the range is read",
        ),
        pytest.param(
            "e.ev_txid >= pg_snapshot_xmax(i_after) and",
            "e.ev_txid > pg_snapshot_xmax(i_after) and",
            id="the first transaction is skipped",
        ),
        pytest.param(
            "and e.ev_txid < gap.before",
            "and e.ev_txid <= gap.before",
            id="an open transaction after a gap is read",
        ),
        pytest.param(
            "e.ev_txid > gap.after",
            "e.ev_txid >= gap.after",
            id="an open transaction before a gap is read",
        ),
        pytest.param(
            "if pg_snapshot_xmin(i_after) = pg_snapshot_xmax(i_after) then",
            "if true then",
            id="late transactions are skipped",
        ),
        pytest.param(
            "where pg_visible_in_snapshot(late.txid, i_upto)",
            "where true",
            id="late transactions are read while they are open",
        ),
    ],
)
def test_a_planted_bug_of_any_is_found(connection, log, old, new):
    replace_in(connection, "pgq.event_1_any(pg_snapshot,pg_snapshot)", old, new)

    with pytest.raises(AssertionError):
        check_all(connection)


def test_any_does_not_visit_what_running_transactions_have_written(database, connection, log):
    after = value(connection, "select tick_snapshot::text from pgq.tick")
    with database.connect(autocommit=False) as writer:
        writer.execute(
            "insert into pgq.event_1_0 (ev_time, ev_type) select now(), 't' from generate_series(1, 20000)"
        )
        connection.execute("analyze pgq.event_1_0")

        connection.execute("select pg_current_xact_id()")  # a later transaction that has ended

        with connection.transaction():
            found = value(
                connection, "select pgq.event_1_any(%s::pg_snapshot, pg_current_snapshot())", after
            )
            visited = value(
                connection,
                "select pg_stat_get_xact_tuples_returned('pgq.event_1_0_txid_idx'::regclass)",
            )

    assert found is False
    assert visited < 100


def test_a_tick_is_found_in_any_segment(connection, log):
    connection.execute(
        "insert into pgq.tick_1_2 (tick_queue, tick_id, tick_event_seq) values (1, nextval('pgq.event_1_tick_seq'), 7)"
    )

    assert value(connection, "select (pgq._last_tick(1)).tick_id") == 2
    assert value(connection, "select tick_id from pgq._tick_after(1, 0)") == 1
    assert value(connection, "select tick_event_seq from pgq._tick_after(1, 1)") == 7
    assert value(connection, "select tick_id from pgq._tick_after(1, 2)") is None
    assert value(connection, "select tick_id from pgq._find_tick(1, 2, false)") == 2
    assert value(connection, "select tick_id from pgq._find_tick(1, 0, false)") is None
