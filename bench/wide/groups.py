"""Many members of a share group, and many keys."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import psycopg

from bench.wide.costs import Call, Dimension, Site, Step
from bench.wide.duties import DUTIES, page, session, statement

EVENTS = 20
EACH = 4  # events that each of the concurrent members handles
SESSIONS = 50  # their sessions, as behind a pooler


def make_members(site: Site, size: int) -> None:
    """Let members of a share group hold a claim each."""
    site.execute("select pgq.create_queue('log') where not exists (select from pgq.queue)")
    site.execute("select sluice.create_group('log', 'members')")
    site.execute("select sluice.create_group('log', 'keyed', '{\"key\": \"ev_extra1\"}')")
    for group in ("members", "keyed"):
        row = site.execute("select count(*) from sluice.list_claims('log', %s)", [group]).fetchone()
        missing = size - (row[0] if row else 0)
        site.execute(
            "select pgq.insert_event('log', 'type', n::text, concat_ws(' ', 'held', %s::text, %s::integer, n), "
            "null, null, null) from generate_series(1, %s::integer) as n",
            [group, size, missing],
        )
    for group in ("members", "keyed"):
        while site.execute(
            "select count(*) from sluice.list_claims('log', %s)", [group]
        ).fetchone() < (size,):
            site.execute("select * from sluice.claim('log', %s, 1, '1 day')", [group])
        # The rest of the events of the other group.
        while rows := site.execute(
            "select claim_id from sluice.claim('log', %s, 1000)", [group]
        ).fetchall():
            site.execute("select sluice.acknowledge('log', %s, %s)", [group, rows[0][0]])
    site.execute("vacuum analyze")
    site.execute("checkpoint")


def one(connection: psycopg.Connection[Any], group: str, extra: str) -> None:
    """Append an event, and claim and acknowledge one."""
    connection.execute(
        "select pgq.insert_event('log', 'type', 'data', %s, null, null, null)", [extra]
    )
    rows = connection.execute("select claim_id from sluice.claim('log', %s, 1)", [group]).fetchall()
    if rows:
        connection.execute("select sluice.acknowledge('log', %s, %s)", [group, rows[0][0]])


@contextmanager
def beside(site: Site, group: str) -> Iterator[Call]:
    """Handle events while other members hold their claims."""
    with session(site) as connection:

        def call() -> int:
            for _ in range(EVENTS):
                one(connection, group, "free")
            return EVENTS

        yield call


@contextmanager
def together(site: Site) -> Iterator[Call]:
    """Handle events in as many concurrent members as hold a claim, in at most 50 sessions."""
    row = site.execute("select count(*) from sluice.list_claims('log', 'members')").fetchone()
    members = row[0] if row else 0
    with ExitStack() as stack:
        sessions = [stack.enter_context(session(site)) for _ in range(min(members, SESSIONS))]

        def call() -> int:
            def work(connection: psycopg.Connection[Any], times: int) -> None:
                for _ in range(times):
                    one(connection, "members", "free")

            share = EACH * members // len(sessions)
            threads = [threading.Thread(target=work, args=[each, share]) for each in sessions]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return share * len(sessions)

        yield call


MEMBERS = Dimension(
    "members",
    ("members_small", "members_middle", "members_large"),
    make_members,
    (
        Step(
            "append, claim and acknowledge beside open claims",
            "message",
            partial(beside, group="members"),
            growth=0.0,
        ),
        Step(
            "the same in a group with keys", "message", partial(beside, group="keyed"), growth=0.0
        ),
        Step("concurrent members", "message", together, growth=0.0, calls=1, is_counted=False),
        *DUTIES,
        statement("sluice.maintain_groups()", "select * from sluice.maintain_groups(null)"),
        statement("sluice.list_groups()", "select * from sluice.list_groups(null, null)"),
        statement("sluice.list_claims()", "select * from sluice.list_claims('log', 'members')"),
        page("/group", log="log", group="members"),
    ),
)

# Each with as many messages: a message per key, and one key, whose first message is being processed.
PLACES = ("many", "one")
KEYS_LIMIT = '{"key_concurrency": 1, "when_waiting": "block"}'
_SEND = """
    insert into pgmq.q_{0} (vt, message, headers)
    select clock_timestamp(), '{{}}', jsonb_build_object('x-pgmq-group', {1}) from generate_series(%s::integer, %s) as n
"""
_KEYS = {"many": "'key ' || n", "one": "'key'"}


def make_keys(site: Site, size: int) -> None:
    """Send a message for each of many keys, and as many of one key, to queues and logs."""
    done = 0
    if site.execute("select from pgmq.meta").fetchone() is None:
        site.execute("create table made (size integer)")
        for place in PLACES:
            site.execute("select pgmq.create(%s)", [place])
            site.execute("select sluice.set_queue_options(%s, %s)", [place, KEYS_LIMIT])
            site.execute("select pgq.create_queue(%s)", [place])
            site.execute(
                "select sluice.create_group(%s, 'members', '{\"key\": \"ev_extra1\"}')", [place]
            )
    else:
        row = site.execute("select max(size) from made").fetchone()
        done = row[0] if row else 0
    for place in PLACES:
        site.execute(_SEND.format(place, _KEYS[place]), [done + 1, size])
        site.execute(
            f"select count(pgq.insert_event(%s, 'type', 'data', {_KEYS[place]}, null, null, null)) "
            "from generate_series(%s::integer, %s) as n",
            [place, done + 1, size],
        )
        site.execute("select pgq.force_tick(%s)", [place])
        site.execute("select pgq.ticker(%s)", [place])
    site.execute("insert into made values (%s)", [size])
    if not done:
        site.execute("select * from sluice.claim_messages('one', 86400, 1)")
        site.execute("select * from sluice.claim('one', 'members', 1, '1 day')")
    # The group reads the events of its busy key once.
    while site.execute("select from sluice.claim('one', 'members', 1, '1 day')").fetchall():
        pass
    while _lag(site, "one") > 0:
        site.execute("select from sluice.claim('one', 'members', 1, '1 day')")
    site.execute("vacuum analyze")
    site.execute("checkpoint")


def _lag(site: Site, log_name: str) -> int:
    """Return the events that the group has not read, without those that wait for their key."""
    row = site.execute(
        """
        select l.lag_events - (select coalesce(sum(t.waiting), 0) from sluice._waiting_turns(g.group_id) as t)
        from sluice.share_group as g
        cross join sluice.list_groups(g.log_name, g.group_name) as l
        where g.log_name = %s
        """,
        [log_name],
    ).fetchone()
    return int(row[0]) if row else 0


@contextmanager
def keyed_queue(site: Site, place: str) -> Iterator[Call]:
    """Send a message of a new key, and claim and acknowledge one."""
    with session(site) as connection:

        def call() -> int:
            for _ in range(EVENTS):
                connection.execute(
                    "select pgmq.send(%s, '{}', jsonb_build_object('x-pgmq-group', clock_timestamp()::text))",
                    [place],
                )
                rows = connection.execute(
                    "select msg_id from sluice.claim_messages(%s, 30, 1)", [place]
                ).fetchall()
                connection.execute("select pgmq.delete(%s, %s::bigint)", [place, rows[0][0]])
            return EVENTS

        yield call


@contextmanager
def keyed_group(site: Site, place: str) -> Iterator[Call]:
    """Append an event of a new key, and claim and acknowledge one."""
    with session(site) as connection:

        def call() -> int:
            for _ in range(EVENTS):
                connection.execute(
                    "select pgq.insert_event(%s, 'type', 'data', clock_timestamp()::text, null, null, null)",
                    [place],
                )
                rows = connection.execute(
                    "select claim_id from sluice.claim(%s, 'members', 1)", [place]
                ).fetchall()
                if not rows:
                    raise RuntimeError(f"log {place}: no event was claimed")
                connection.execute(
                    "select sluice.acknowledge(%s, 'members', %s)", [place, rows[0][0]]
                )
            return EVENTS

        yield call


KEYS = Dimension(
    "keys",
    ("keys_small", "keys_middle", "keys_large"),
    make_keys,
    (
        *(
            Step(
                f"{verb}, claim and acknowledge, {what}",
                "message",
                partial(opened, place=place),
                growth=0.0,
            )
            for verb, opened in (("send", keyed_queue), ("append", keyed_group))
            for place, what in (("many", "a message per key"), ("one", "beside one busy key"))
        ),
        *(
            statement(f"pgmq.metrics({place})", f"select * from pgmq.metrics('{place}')")
            for place in PLACES
        ),
        *DUTIES,
        statement("sluice.list_groups()", "select * from sluice.list_groups(null, null)"),
        page("/queue", name="one"),
        page("/group", log="one", group="members"),
    ),
)
