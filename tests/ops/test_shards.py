"""Change the directory of shards: messages move to the shards of their keys, once and in order."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import support
from pgsluice.client import WorkQueue
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import pgmq
from pgsluice.client.calls.shards import checked
from pgsluice.errors import ConfigurationError, DirectoryChangedError, ShardError
from pgsluice.ops.shards import apply, move, opened
from pgsluice.ops.shards.moving import Movement
from pgsluice.shards import Directory, Shards
from support import replace_in, value

KEYS = [f"tenant-{n}" for n in range(30)]


@pytest.fixture
def three(make_database_18):
    """Three databases with the schema."""
    return {name: make_database_18() for name in "abc"}


@pytest.fixture
def file_of(three, tmp_path):
    """A function that writes the file of some of the databases."""

    def write(names, pins=()):
        path = tmp_path / "shards.toml"
        lines = [f'{name} = {{ dsn = "{three[name].url}" }}' for name in names]
        text = "\n".join(["# Our servers", "[shards]", *lines, ""])
        if pins:
            text += "\n[pins]\n" + "".join(f'"{key}" = "{name}"\n' for key, name in pins)
        path.write_text(text)
        return Shards.load(path)

    return write


def fill(database, keys, qty=3, queue="orders"):
    """Send messages 0, 1, … of each key, in turn."""
    with database.connect() as connection:
        work = WorkQueue(connection)
        work.create(queue)
        for n in range(qty):
            for key in keys:
                work.send(queue, {"key": key, "n": n}, headers={"x-pgmq-group": key})


def stored(databases, queue="orders"):
    """Return the numbers of each key's messages by shard, in the order of msg_id."""
    found = {}
    for name, database in databases.items():
        with database.connect() as connection:
            if value(connection, "select to_regclass(%s)", f"pgmq.q_{queue}") is None:
                continue
            rows = connection.execute(
                f"select headers ->> 'x-pgmq-group', (message ->> 'n')::int from pgmq.q_{queue} order by msg_id"
            ).fetchall()
            for key, n in rows:
                found.setdefault((key, name), []).append(n)
    return found


def test_apply_moves_each_key_to_its_shard_in_order(three, file_of):
    shards = file_of("ab")
    fill(three["a"], KEYS)
    moved = apply(shards)
    assert stored(three) == {(key, shards.home(key)): [0, 1, 2] for key in KEYS}
    assert moved == 3 * sum(shards.home(key) == "b" for key in KEYS)


def test_second_apply_of_the_same_file_changes_nothing(three, file_of):
    shards = file_of("ab")
    fill(three["a"], KEYS)
    apply(shards)
    lines = []
    assert apply(shards, say=lines.append) == 0
    assert lines == ["the directory of generation 1 is in place: nothing to do"]


def test_new_shard_takes_over_its_keys_and_no_others(three, file_of):
    before = file_of("ab")
    fill(three["a"], KEYS)
    apply(before)
    after = file_of("abc")
    moved = [key for key in KEYS if after.home(key) == "c"]
    assert 0 < len(moved) < len(KEYS) / 2
    assert apply(after) == 3 * len(moved)
    assert stored(three) == {(key, after.home(key)): [0, 1, 2] for key in KEYS}
    assert all(after.home(key) in (before.home(key), "c") for key in KEYS)


def test_shard_that_leaves_keeps_no_messages(three, file_of):
    shards = file_of("abc")
    fill(three["a"], KEYS)
    apply(shards)
    with pytest.raises(ConfigurationError, match="apply --without c"):
        apply(file_of("ab"))
    apply(file_of("abc"), without=["c"])
    assert {name for _key, name in stored(three)} == {"a", "b"}
    assert apply(file_of("ab")) == 0


def test_move_pins_the_key_and_moves_its_messages_only(three, file_of):
    shards = file_of("ab")
    fill(three["a"], KEYS)
    apply(shards)
    key = next(key for key in KEYS if shards.home(key) == "a")
    assert move(shards, key, "b") == 3
    assert stored(three) == {
        (one, "b" if one == key else shards.home(one)): [0, 1, 2] for one in KEYS
    }
    again = Shards.load(shards.path)
    assert again.directory.pins == {key: "b"}
    assert shards.path.read_text().startswith("# Our servers\n")
    assert move(again, key, "a") == 3
    assert Shards.load(shards.path).directory.pins == {}


def test_moved_message_names_its_origin_and_keeps_times_reads_and_attempts(three, file_of):
    shards = file_of("ab")
    key = next(key for key in KEYS if shards.home(key) == "a")
    with three["a"].connect() as connection:
        work = WorkQueue(connection)
        work.create("orders")
        work.send("orders", {}, headers={"x-pgmq-group": key, "h": [1, None]})
        connection.execute(
            "update pgmq.q_orders set message = '{\"n\": 12345678901234567890.10}'::jsonb"
        )
        work.send("orders", None, headers={"x-pgmq-group": key}, delay=600)
        claimed = work.read("orders", 30, 1)[0]
        connection.execute(
            "select * from sluice.fail('orders', jsonb_build_array(jsonb_build_object('msg_id', %s::bigint, "
            "'read_ct', %s::integer, 'delay', 500, 'error', 'refused')))",
            (claimed.msg_id, claimed.read_ct),
        )
        old = connection.execute(
            "select read_ct, enqueued_at, last_read_at, vt, message::text, headers from pgmq.q_orders order by msg_id"
        ).fetchall()
        tried = connection.execute("select * from sluice.attempt").fetchall()
    apply(shards)
    move(shards, key, "b")
    with three["b"].connect() as connection:
        rows = connection.execute(
            "select read_ct, enqueued_at, last_read_at, vt, message::text, headers from pgmq.q_orders order by msg_id"
        ).fetchall()
        again = connection.execute("select * from sluice.attempt").fetchall()
    assert [row[:5] for row in rows] == [row[:5] for row in old]
    assert rows[0][5] == {
        **old[0][5],
        "x-pgmq-moved-from": {"shard": "a", "queue": "orders", "msg_id": 1},
    }
    assert len(tried) == 1
    assert again == tried


def test_message_in_flight_moves_after_it_is_settled(three, file_of):
    shards = file_of("ab")
    key = next(key for key in KEYS if shards.home(key) == "a")
    fill(three["a"], [key])
    apply(shards)
    with three["a"].connect() as connection:
        work = WorkQueue(connection)
        claimed = work.read("orders", 60, 1)[0]
        thread = threading.Thread(target=move, args=(shards, key, "b"))
        thread.start()
        thread.join(1.5)
        assert thread.is_alive()
        # The others of the key have left the queue, and are not at the new shard, where they would overtake it.
        assert stored(three) == {(key, "a"): [0]}
        work.archive("orders", claimed.msg_id)
        thread.join(20)
        assert not thread.is_alive()
    assert stored(three) == {(key, "b"): [1, 2]}


def test_message_that_others_wait_for_is_handled_before_the_key_moves(three, file_of):
    shards = file_of("ab")
    key = next(key for key in KEYS if shards.home(key) == "a")
    fill(three["a"], [key], qty=1)
    apply(shards)
    with three["a"].connect() as connection:
        work = WorkQueue(connection)
        connection.execute("select sluice.enable_successors('orders')")
        work.send("orders", {"n": 1}, after={"orders": [1]}, headers={"x-pgmq-group": key})
        thread = threading.Thread(target=move, args=(shards, key, "b"))
        thread.start()
        thread.join(1)
        assert stored(three) == {(key, "a"): [0, 1]}
        claimed = work.read("orders", 30, 1)[0]
        work.archive("orders", claimed.msg_id)
        thread.join(20)
    assert stored(three) == {(key, "b"): [1]}


def test_queue_is_created_at_its_new_shard_with_its_options(three, file_of):
    shards = file_of("ab")
    apply(shards)
    key = next(key for key in KEYS if shards.home(key) == "a")
    fill(three["a"], [key], queue="late")
    with three["a"].connect() as connection:
        WorkQueue(connection).set_queue_options("late", max_attempts=9, when_waiting="block")
    move(shards, key, "b")
    with three["b"].connect() as connection:
        options = WorkQueue(connection).queue_options("late")
    assert (options.max_attempts, options.when_waiting) == (9, "block")


def test_change_needs_all_shards_and_names_the_one_that_is_down(three, file_of):
    shards = file_of("ab")
    broken = json.dumps({"a": three["a"].url, "b": "postgresql://127.0.0.1:1/none"})
    down = Shards.of(json.loads(broken))
    with pytest.raises(ShardError, match="shard 'b' is not available"):
        apply(down)
    with three["a"].connect() as connection:
        assert value(connection, "select count(*) from sluice.shard") == 0
    apply(shards)
    swapped = Shards.of({"a": three["b"].url, "b": three["a"].url})
    with pytest.raises(ShardError, match="is the shard 'b'"):
        apply(swapped)


@pytest.mark.slow
def test_move_that_is_killed_at_any_step_is_completed_by_its_repetition(three, file_of):
    shards = file_of("ab")
    apply(shards)
    key = KEYS[0]
    fill(three[shards.home(key)], [key], qty=25)
    with three["a"].connect() as a, three["b"].connect() as b:
        for connection in (a, b):
            WorkQueue(connection).create("orders")
    program = Path(support.__file__).with_name("shard_crash.py")
    # Two batches, so that it is also killed between them.
    code = (
        "import runpy, sys, pgsluice.ops.shards.moving as moving; moving._QTY = 10; "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, program, shards.path, key],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    # It was killed often enough to have met each step: take, receive, forget, begin and finish of both.
    assert sum(one["killed"] for one in rounds) > 30
    for one in rounds:
        expected = {"a": [], "b": [], "a moving": [], "b moving": []}
        assert one["again"] == 0, (one, done.stderr)
        assert one["places"] == {**expected, one["to"]: list(range(25))}, one


@pytest.mark.parametrize("is_fenced", [True, False])
def test_key_moves_after_the_open_transactions_that_have_sent_it(three, file_of, is_fenced):
    """Without the fence the message of such a transaction stays behind, and is handled after later ones or before."""
    shards = file_of("ab")
    key = next(key for key in KEYS if shards.home(key) == "a")
    fill(three["a"], [key], qty=1)
    apply(shards)
    with three["a"].connect() as admin, three["a"].connect(autocommit=False) as sender:
        if not is_fenced:
            replace_in(
                admin,
                "sluice.check_shard(text,bigint)",
                "lock table sluice.shard in row share mode;",
                "return true;",
            )
        call = pgmq.send("orders", {"key": key, "n": 1}, headers={"x-pgmq-group": key})
        Runner(sender).run(checked(call, "a", 1))
        thread = threading.Thread(target=move, args=(shards, key, "b"))
        thread.start()
        thread.join(1)
        sender.commit()
        thread.join(20)
    left = {} if is_fenced else {(key, "a"): [1]}
    assert stored(three) == {(key, "b"): [0, 1] if is_fenced else [0], **left}


def test_mover_that_was_overtaken_by_a_newer_change_stops(three, file_of):
    shards = file_of("ab")
    key = next(key for key in KEYS if shards.home(key) == "a")
    fill(three["a"], [key])
    apply(shards)
    move(shards, key, "b")
    move(shards, key, "a")
    stale = Directory(shards.names, {key: "b"})
    with opened(shards) as found, pytest.raises(DirectoryChangedError):
        Movement(found, 2, stale, [key], print).run()
    assert stored(three) == {(key, "a"): [0, 1, 2]}
