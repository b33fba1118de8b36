"""The three FIFO readers against a model, on random queues, with and without the index.

Also covers _claim_groups, _next_groups, _group_runs, _lock_runs, _read_groups, _fifo_key_sql and
_has_fifo_index.
"""

import hashlib
import random

import pytest

from support import rows, value

DEFAULT = "_default_fifo_group"


def model(messages, qty, strategy):
    """Return the expected result of a reader for messages (msg_id, group, visible, read_ct)."""
    groups = {}
    for message in messages:
        groups.setdefault(message[1], []).append(message)
    runs = []
    for members in groups.values():
        run = []
        for message in members:
            if not message[2]:
                break
            run.append(message[0])
        in_flight = any(not visible and read_ct for _, _, visible, read_ct in members)
        if run and (members[0][3] or not in_flight):
            runs.append(run)
    runs.sort()
    if strategy == "fill":
        return sorted([msg_id for run in runs for msg_id in run][:qty])
    if strategy == "head":
        return [run[0] for run in runs][:qty]
    turns = sorted((turn, run[0], run[turn]) for run in runs for turn in range(len(run)))
    return [msg_id for _, _, msg_id in turns][:qty]


READERS = {"fill": "read_grouped", "round": "read_grouped_rr", "head": "read_grouped_head"}


def fill_queue(connection, source, size, groups):
    """Fill the queue at random: gaps, delayed, in flight, expired, released, without a group."""
    connection.execute("truncate pgmq.q_orders")
    messages = []
    msg_id = 0
    blocked = {g for g in range(groups) if source.random() < 0.4}
    for _ in range(size):
        msg_id += source.choice([1, 1, 1, 7])
        g = min(int(source.expovariate(2 / groups)), groups - 1)
        group = DEFAULT if g == 0 else f"group {g}"
        first = not any(m[1] == group for m in messages)
        hidden = (g in blocked and first) or source.random() < 0.05
        read_ct = source.choice([0, 0, 0, 1, 3])
        kind = "later" if hidden else source.choice(["ready", "ready", "ready", "due"])
        messages.append((msg_id, group, kind, read_ct))
    connection.cursor().executemany(
        """insert into pgmq.q_orders (msg_id, enqueued_at, vt, read_ct, headers, message)
        overriding system value
        values (%(id)s, now() - interval '1 h',
            case %(kind)s when 'later' then now() + interval '1 h' when 'due' then now() - interval '1 min'
                else now() - interval '2 h' end,
            %(read_ct)s, %(headers)s, '{}')""",
        [
            {
                "id": msg_id,
                "kind": kind,
                "read_ct": read_ct,
                "headers": None if group == DEFAULT else f'{{"x-pgmq-group": "{group}"}}',
            }
            for msg_id, group, kind, read_ct in messages
        ],
    )
    return [(msg_id, group, kind != "later", read_ct) for msg_id, group, kind, read_ct in messages]


@pytest.mark.parametrize("indexed", [False, True], ids=["no index", "index"])
@pytest.mark.parametrize(("size", "groups"), [(6, 2), (40, 3), (40, 30), (600, 40), (600, 500)])
def test_the_readers_return_what_the_model_says(connection, queue, seed, indexed, size, groups):
    source = random.Random(f"{seed}/{size}/{groups}")
    if indexed:
        connection.execute("select pgmq.create_fifo_index('orders')")
    assert value(connection, "select pgmq._has_fifo_index('q_orders')") == indexed

    for _ in range(8):
        messages = fill_queue(connection, source, size, groups)
        for strategy, reader in READERS.items():
            qty = source.choice([1, 2, 5, 17, 100, 1000])
            with connection.transaction(force_rollback=True):
                found = [
                    row[0]
                    for row in rows(
                        connection, f"select msg_id from pgmq.{reader}('orders', 60, {qty})"
                    )
                ]
            assert found == model(messages, qty, strategy), (reader, qty, messages)


@pytest.mark.parametrize("reader", READERS.values())
def test_more_groups_and_due_messages_than_one_step_takes(connection, queue, reader):
    # 2,000 groups after 3,000 due messages of a group in flight: both exceed the internal limits.
    connection.execute("select pgmq.create_fifo_index('orders')")
    connection.execute(
        """insert into pgmq.q_orders (enqueued_at, vt, read_ct, headers)
        select now() - interval '1 h', case n when 1 then now() + interval '1 h' else now() - interval '50 min' end,
            1, '{"x-pgmq-group": "stuck"}'
        from generate_series(1, 3000) as n"""
    )
    connection.execute(
        """insert into pgmq.q_orders (enqueued_at, vt, read_ct, headers)
        select now() - interval '1 h', now() - interval '30 min', 1, jsonb_build_object('x-pgmq-group', n % 2000)
        from generate_series(1, 4000) as n"""
    )

    found = rows(connection, f"select msg_id from pgmq.{reader}('orders', 60, 2500)")

    wanted = {
        "read_grouped": 2500,
        "read_grouped_rr": 2500,
        "read_grouped_head": 2000,
    }[reader]
    assert len(found) == wanted
    assert min(found) > (3000,)


@pytest.mark.parametrize("reader", READERS.values())
def test_with_the_index_a_read_does_not_touch_the_messages_it_does_not_return(
    connection, queue, reader
):
    # All messages belong to one group whose head is in flight, so a read has nothing to return.
    connection.execute("select pgmq.create_fifo_index('orders')")
    connection.execute(
        """insert into pgmq.q_orders (vt, headers)
        select now(), '{"x-pgmq-group": "one"}' from generate_series(1, 20000)"""
    )
    rows(connection, "select * from pgmq.read_grouped('orders', 60, 1)")
    fetched = (
        "select sum(idx_tup_fetch) + sum(seq_tup_read) "
        "from pg_stat_xact_user_tables where relname = 'q_orders'"
    )
    with connection.transaction():
        assert rows(connection, f"select * from pgmq.{reader}('orders', 60, 100)") == []
        assert value(connection, fetched) < 3000


def test_a_group_that_is_too_long_for_an_index_does_not_make_a_send_fail(connection, queue):
    connection.execute("select pgmq.create_fifo_index('orders')")
    # Hashes, as the server would compress a text that repeats itself.
    long = "".join(hashlib.sha256(b"%d" % n).hexdigest() for n in range(500))

    connection.execute(
        "select pgmq.send('orders', '1'::jsonb, jsonb_build_object('x-pgmq-group', %s::text))",
        [long],
    )

    assert rows(connection, "select msg_id from pgmq.read_grouped('orders', 60, 1)") == [(1,)]
