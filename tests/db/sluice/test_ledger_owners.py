"""Owners of ledger entries: a role cannot make another role's next call look like a repetition.

Covers sluice._caller_id, which identifies roles, and sluice._require_sender and
_require_sink_owner, which reject them.
"""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value
from support.queue_options import set_queue_options

DENIED = psycopg.errors.InsufficientPrivilege


def commit(session, version, sink="importer"):
    return value(session, "select sluice.sink_commit(%s, %s)", sink, version)


def test_a_version_of_a_sink_is_refused_from_another_role(acting):
    with acting("importer") as importer, acting("stranger") as stranger:
        assert commit(importer, 1) is True
        with pytest.raises(DENIED, match="sink 'importer' belongs to role importer_") as caught:
            commit(stranger, 2**63 - 1)
        assert "sluice.set_sink_owner" in caught.value.diag.message_hint
        assert commit(importer, 2) is True
        # Also an old version, as its result would mean that the rows are committed.
        with pytest.raises(DENIED):
            commit(stranger, 1)


def test_a_member_of_the_owner_commits_for_it(connection, acting):
    connection.execute(
        f'grant "{acting.names["importer"]}" to "{acting.names["stranger"]}"'.encode()
    )
    with acting("importer") as importer, acting("stranger") as colleague:
        assert commit(importer, 1) is True
        assert commit(colleague, 2) is True
        assert commit(importer, 2) is False


def test_a_sink_from_before_goes_to_the_next_role_that_commits(connection, acting):
    connection.execute(
        "insert into sluice.sink_commit (kind, key, version) values ('sink', 'importer', 1)"
    )
    with acting("importer") as importer, acting("stranger") as stranger:
        assert commit(importer, 2) is True
        with pytest.raises(DENIED):
            commit(stranger, 3)


def test_a_sink_whose_owner_was_dropped_goes_to_the_next_role_that_commits(connection, acting):
    connection.execute("create role departed in role sluice_writer")
    connection.execute("set role departed")
    commit(connection, 1)
    connection.execute("reset role; drop role departed")

    with acting("importer") as importer, acting("stranger") as stranger:
        assert commit(importer, 2) is True
        with pytest.raises(DENIED):
            commit(stranger, 3)


def test_an_owner_forgets_its_sink_and_others_cannot(acting):
    with acting("importer") as importer, acting("stranger") as stranger:
        commit(importer, 1)
        with pytest.raises(DENIED, match="belongs to role"):
            stranger.execute("select sluice.forget_sink('importer')")
        assert value(importer, "select sluice.forget_sink('importer')") is True


def make_queue(connection):
    connection.execute("select pgmq.create('orders')")
    set_queue_options(connection, "orders", deduplication_window="1 hour")


def send(session, key, batch):
    if batch:
        query = "select * from sluice.send_batch('orders', array['1'::jsonb], array[%s])"
    else:
        query = "select sluice.send('orders', '1', %s)"
    return value(session, query, key)


@pytest.mark.parametrize("batch", [False, True])
def test_a_deduplication_key_of_another_role_is_an_error_and_no_id(connection, acting, batch):
    make_queue(connection)
    with acting("importer") as importer, acting("stranger") as stranger:
        assert send(importer, "17", batch) == 1
        assert send(importer, "17", batch) == 1
        with pytest.raises(
            DENIED, match="deduplication key '17' belongs to role importer_"
        ) as caught:
            send(stranger, "17", batch)
        assert "use another key" in caught.value.diag.message_hint

    assert value(connection, "select count(*) from pgmq.q_orders") == 1


@pytest.mark.parametrize("batch", [False, True])
def test_a_key_that_was_taken_and_not_sent_is_no_id_for_another_role(connection, acting, batch):
    make_queue(connection)
    incarnation = value(connection, "select deduplication_id from sluice.queue_settings")
    with acting("importer") as importer, acting("stranger") as stranger:
        stranger.execute(
            "select sluice._take_deduplication_keys(%s, false, array['17'], now(), 'infinity')",
            (incarnation,),
        )
        stranger.execute(
            "select sluice._note_deduplication_ids(%s, false, array['17'], array[99::bigint], 'infinity')",
            (incarnation,),
        )
        with pytest.raises(DENIED, match="deduplication key '17' belongs to role stranger_"):
            send(importer, "17", batch)


def test_the_id_of_a_key_cannot_be_changed(connection, acting):
    make_queue(connection)
    incarnation = value(connection, "select deduplication_id from sluice.queue_settings")
    with acting("importer") as importer, acting("stranger") as stranger:
        assert send(importer, "17", False) == 1
        for session in (importer, stranger):
            session.execute(
                "select sluice._note_deduplication_ids(%s, false, array['17'], array[99::bigint], 'infinity')",
                (incarnation,),
            )
        assert send(importer, "17", False) == 1


def test_roles_of_one_team_share_their_keys(connection, acting):
    make_queue(connection)
    names = acting.names
    connection.execute(f'grant "{names["importer"]}" to "{names["stranger"]}"'.encode())
    with acting("importer") as importer, acting("stranger") as colleague:
        assert send(importer, "17", False) == 1
        assert send(colleague, "17", False) == 1
        assert send(colleague, "18", False) == 2
        assert send(importer, "18", False) == 2


def test_a_key_that_another_role_recorded_is_an_error_and_not_done(acting):
    with acting("importer") as importer, acting("stranger") as stranger:
        assert value(importer, "select sluice.once('bill', '17')") is True
        assert value(importer, "select sluice.once('bill', '17')") is False
        with pytest.raises(DENIED, match="key '17' of handler 'bill' belongs to role importer_"):
            stranger.execute("select sluice.once('bill', '17')")


# Application roles write messages, as in PGMQ, and events, by COPY. Readers also write attempts and
# outcomes of messages; as they may settle every message, this grants no further rights.
WRITABLE = r"^(pgmq\.[qa]_orders|pgq\.event_1_[0-9])$"
WRITABLE_BY_READERS = {
    "sluice.attempt",
    "sluice.dead_letter_message",
    "sluice.parked_key",
    "sluice.queue_start",
    "sluice.queue_stream",
    "sluice.result",
}


@pytest.mark.parametrize(
    "role_name", ["sluice_writer", "sluice_reader", "sluice_monitor", "pgq_writer", "pgq_reader"]
)
def test_no_application_role_writes_a_ledger_directly(connection, role_name):
    connection.execute("select pgmq.create('orders'), pgq.create_queue('changes')")

    written = rows(
        connection,
        """
        select c.oid::regclass::text
        from pg_class as c
        where c.relnamespace = any ('{pgmq, pgq, pgq_coop, sluice}'::regnamespace[])
          and c.relkind in ('r', 'p', 'v')
          and has_any_column_privilege(%s, c.oid, 'insert, update')
          and c.oid::regclass::text !~ %s
        order by 1
        """,
        role_name,
        WRITABLE,
    )

    assert {table for (table,) in written} == (
        WRITABLE_BY_READERS if role_name == "sluice_reader" else set()
    )


def test_a_monitor_sees_that_a_key_is_parked_and_not_which(as_member):
    assert (
        as_member("sluice_monitor", "select limits_id, msg_id, parked_at from sluice.parked_key")
        == []
    )
    for column in ("key", "key_hash", "*"):
        with pytest.raises(DENIED):
            as_member("sluice_monitor", f"select {column} from sluice.parked_key")
