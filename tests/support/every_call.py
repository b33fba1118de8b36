"""Every call that updates or deletes, in a database with one object of each kind."""

from __future__ import annotations

import json

import psycopg

from support import rows, value
from support.exports import verify
from support.failures import add_trigger, delay
from support.moving import NEXT, TAKE
from support.shards import BEGIN, FINISH, FIRST
from support.share_groups import let_pass


def use_everything(connection: psycopg.Connection) -> None:
    """Make the calls; drop everything at the end."""
    use_queues(connection)
    use_ledgers_of_queues(connection)
    use_logs(connection)
    use_groups(connection)
    use_shards(connection)
    maintain(connection)
    take_down(connection)


def call(connection: psycopg.Connection, *calls: str) -> None:
    for text in calls:
        connection.execute(f"select {text}".encode())


def claim(connection: psycopg.Connection, queue: str = "target") -> tuple[int, int]:
    """Send a message and claim it; return its msg_id and the claim's read_ct."""
    call(connection, f"pgmq.send('{queue}', '{{}}', '{{\"x-pgmq-group\": \"a\"}}'::jsonb)")
    found = rows(connection, "select msg_id, read_ct from sluice.claim_messages(%s, 60, 1)", queue)
    return found[0]


def claims(connection: psycopg.Connection, queue: str = "target") -> str:
    msg_id, read_ct = claim(connection, queue)
    return f"'{queue}', array[{msg_id}], array[{read_ct}]"


def use_queues(connection: psycopg.Connection) -> None:
    for queue in ("orders", "sessions", "by_id", "by_time", "converted_by_id", "converted_by_time"):
        call(connection, f"pgmq.create('{queue}')" if queue == "orders" else "1")
        call(connection, f"pgmq.send('{queue}', '1')", f"pgmq.read('{queue}', 0, 1)")
        call(connection, f"pgmq.send('{queue}', '1')", f"pgmq.pop('{queue}')")
        call(connection, f"pgmq.read_grouped('{queue}', 0, 1)")
        msg_id, read_ct = claim(connection, queue)
        call(connection, f"pgmq.set_vt('{queue}', {msg_id}, 60)")
        call(connection, f"pgmq.set_vt('{queue}', array[{msg_id}], 60)")
        call(connection, f"sluice.extend('{queue}', {msg_id}, {read_ct}, 60)")
        call(connection, f"sluice.archive('{queue}', {msg_id}, {read_ct})")
        msg_id, read_ct = claim(connection, queue)
        call(connection, f"sluice.release('{queue}', {msg_id}, {read_ct}, 60)")
        call(connection, f"sluice.delete('{queue}', {msg_id}, {read_ct})")
        msg_id, read_ct = claim(connection, queue)
        call(connection, f"sluice.reject('{queue}', {msg_id}, {read_ct}, 'no')")
        call(connection, f"pgmq.delete('{queue}', pgmq.send('{queue}', '1'))")
        call(connection, f"pgmq.delete('{queue}', array[pgmq.send('{queue}', '1')])")
        call(connection, f"pgmq.archive('{queue}', array[pgmq.send('{queue}', '1')])")
        call(connection, f"sluice.purge_messages('{queue}', pgmq.send('{queue}', '1'))")
    call(
        connection,
        f"sluice.extend({claims(connection)}, 60)",
        f"sluice.archive({claims(connection)})",
        f"sluice.release({claims(connection)}, 60)",
        f"sluice.delete({claims(connection)})",
        f"sluice.begin_attempts({claims(connection)}, 'worker')",
        f"sluice.release({claims(connection)}, is_attempt => false)",
        "sluice.start_replay('orders', 'target')",
        "sluice.continue_replay(1)",
        "sluice.queue_stream_start('stream', 'target')",
    )
    msg_id, read_ct = claim(connection)
    failure = json.dumps([{"msg_id": msg_id, "read_ct": read_ct, "max_attempts": 1}])
    call(connection, f"sluice.fail('target', '{failure}', 'worker', '{{\"max_attempts\": 1}}')")
    for action in ("queue_stream_settle(1, 1, true)", "queue_stream_settle(1, 2, false)"):
        call(
            connection,
            "pgmq.send('target', '1')",
            "sluice.queue_stream_claim(1, 1, 10)",
            f"sluice.{action}",
        )
    call(connection, "sluice.queue_stream_drop('stream')")


def use_ledgers_of_queues(connection: psycopg.Connection) -> None:
    call(
        connection,
        "sluice.send('orders', '3', 'another key')",
        *2 * ["sluice.send('orders', '3', 'replaced', null, 0, '{\"on_duplicate\": \"replace\"}')"],
        "sluice.send_batch('orders', array['4'::jsonb], array['a third key'])",
        "pgmq.update_notify_insert('orders', 200)",
        "sluice.redrive('orders')",
        "sluice.purge_dead_letters('by_id', older_than => '0')",
        "sluice.create_export('orders', 'lake', '/elsewhere', 'its id')",
        "sluice.set_queue_options('limited', '{\"rate\": 200}')",
        "sluice.unpark_key('limited', 'a')",
        "sluice.set_queue_options('limited', '{\"pause_reason\": \"another reason\"}')",
        "sluice.report_worker('w', 'app', 'host', 1, '1', '{}', null, '1 s')",
        "sluice.end_worker('w')",
        "sluice._maintain_processes('0')",
        "sluice.set_queue_options('limited', '{\"paused\": null}')",
        'sluice.set_queue_options(\'orders\', \'{"paused": true, "pause_reason": "a reason"}\')',
        "sluice.pause_schedule('nightly')",
        "sluice.pause_schedule('nightly', false)",
        "sluice.schedule('nightly', 'orders', '{}', every => '1 second')",
        "sluice.set_queue_options('orders', '{\"archive_retention\": null}')",
        "sluice.set_queue_options('by_id', '{\"archive_retention\": \"1 microsecond\"}')",
        "sluice.sink_commit('importer', 2)",
        "sluice.drop_stages('importer', 2)",
        "sluice.set_sink_owner('importer', current_user)",
        "sluice.forget_sink('importer')",
    )
    claim(connection, "limited")


def use_logs(connection: psycopg.Connection) -> None:
    connection.execute("insert into account select n, n from generate_series(1, 10) as n")
    connection.execute("update account set amount = 0 where id < 5")
    # The events of a statement of a trigger get new ids.
    connection.execute(
        """create function pg_temp.again() returns trigger language plpgsql as $$
        begin update account set amount = 1 where id = new.id; return null; end $$"""
    )
    connection.execute(
        "create trigger again after insert on account for each row execute function pg_temp.again()"
    )
    connection.execute("insert into account values (11, 11)")
    connection.execute("drop trigger again on account")
    call(connection, "pgq.ticker()")
    batch = value(connection, "select pgq.next_batch('changes', 'plain')")
    call(
        connection,
        f"pgq.event_retry({batch}, ev_id, 0) from pgq.get_batch_events({batch})",
        f"pgq.finish_batch({batch})",
        "sluice.run_schedule('beat')",
        "pgq_coop.next_batch('changes', 'coop', 'first')",
        "pgq.set_queue_config('changes', 'ticker_max_count', '100')",
        *["sluice.hold_pipeline('changes', 'plain', 'events', '/lake', pg_backend_pid())"] * 2,
        "sluice.report_pipeline('changes', 'plain', 1, now())",
    )
    connection.execute("update pgq.subscription set sub_active = now() where sub_consumer = 1")


def use_groups(connection: psycopg.Connection) -> None:
    for group in ("mail", "blocked", "parked"):
        call(
            connection, f"sluice.set_group_options('changes', '{group}', '{{\"max_attempts\": 3}}')"
        )
        for outcome in ("accept", "retry", "reject"):
            claim_id = value(
                connection, "select min(claim_id) from sluice.claim('changes', %s, 2)", group
            )
            if claim_id is not None:
                call(
                    connection, f"sluice.acknowledge('changes', '{group}', {claim_id}, '{outcome}')"
                )
        call(connection, f"sluice.redrive('changes', '{group}')")
        call(connection, f"sluice.purge_dead_letters('changes', '{group}', '0')")
        call(connection, f"sluice.unpark_key('changes', '{group}', 'account')")
    connection.execute("select pgq.insert_event('changes', 'opened', 'renewed')")
    renewed = value(
        connection,
        "select min(claim_id) from sluice.claim('changes', 'mail', 1000, '1 minute')",
    )
    connection.execute("select sluice.renew('changes', 'mail', %s, '1 hour')", [renewed])
    call(
        connection,
        "sluice.declare_types('changes', 'mail', 'shop', array['on_paid'], array['paid'])",
        "sluice.forget_types('changes', 'mail', array['paid'])",
    )
    for time in ("2 minutes", "1 hour"):
        let_pass(connection, time)
        call(connection, "sluice.maintain_groups()")


def use_shards(connection: psycopg.Connection) -> None:
    """Make the database a shard, and move a message to another."""
    connection.execute(BEGIN, ("a", 1, FIRST, None))
    connection.execute(FINISH, (1,))
    call(connection, "pgmq.send('orders', '{}', '{\"x-pgmq-group\": \"moved\"}'::jsonb)")
    taken = rows(connection, TAKE, None, None, ["moved"], ["b"], 9)
    assert taken == [(1, [], None)]
    (moved,) = json.loads(rows(connection, NEXT, [], [], 9)[0][1])
    connection.execute(NEXT, ([moved["moving_id"]], [], 9))
    assert rows(connection, "select from sluice.moving_message") == []


def maintain(connection: psycopg.Connection) -> None:
    """Call everything that daemons call, with all maintenance due."""
    connection.execute("update sluice.deduplication_key set expires_at = now()")
    connection.execute("update sluice.inbox set expires_at = now()")
    connection.execute("update sluice.schedule_slot set fired_at = '-infinity'")
    connection.execute("update sluice.attempt set check_at = now()")
    connection.execute(
        "update sluice.schedule set next_slot = now(), due_at = now() where name = 'beat'"
    )
    connection.execute("update pgq.queue set queue_switch_time = now() - interval '1 day'")
    verify(connection, *[n for (n,) in rows(connection, "select msg_id from pgmq.a_orders")])
    connection.execute("update pgmq.a_orders set archived_at = now() - interval '2 days'")
    connection.execute("update sluice.exported_page set archived_from = '-infinity'")
    call(
        connection,
        "sluice.set_queue_options('orders', '{\"archive_retention\": \"1 day\"}')",
        "sluice.drop_exported('orders')",
        "sluice.create_export('by_id', 'lake', '/lake of by_id', 'its id')",
        "sluice._release_partition('by_id', 'pgmq.a_by_id_default')",
        "pgq._maintain_positions(0)",
        "pgq._maintain_retry(0)",
        "sluice._maintain_ledgers(0)",
        "sluice.set_log_options('changes', '{\"max_lag_events\": 1}')",
        "sluice.fire_schedules()",
    )
    for _ in range(3):
        call(connection, "sluice.maintain()", "pgq.ticker()", "sluice.rotate()")
        connection.execute("update pgq.queue set queue_switch_time = now() - interval '1 day'")
    call(connection, "sluice.maintain_groups()", "sluice.after_restore()")
    table = value(connection, "select pgq.current_event_table('spare')")
    delay(connection, "spare")
    add_trigger(connection, table)
    call(connection, "pgq.maint_retry_events()")
    connection.execute(f"drop trigger refuse on {table}")
    call(connection, "pgq.maint_operations()", "pgq.maint_retry_events()")
    call(connection, "pgq.maint_rotate_tables_step1('spare')", "pgq.maint_rotate_tables_step2()")


def take_down(connection: psycopg.Connection) -> None:
    connection.execute("delete from pgq.subscription where sub_consumer = 1")
    call(
        connection,
        "pgq_coop.unregister_subconsumer('changes', 'coop', 'first', 1)",
        "pgq.unregister_consumer('changes', 'coop')",
        "sluice.drop_group('changes', 'mail')",
        "sluice.drop_capture('public.account', 'changes')",
        "pgq.drop_queue('changes', true)",
        "pgq.drop_queue('spare', true)",
        "pgmq.unbind_topic('order.*', 'orders')",
        "pgmq.disable_notify_insert('orders')",
        "pgmq.purge_queue('orders')",
        "sluice.drop_export('orders', 'lake')",
        "sluice.set_queue_options('orders', '{\"max_attempts\": null}')",
        'sluice.set_queue_options(\'limited\', \'{"rate": null, "key_concurrency": null, "when_waiting": null}\')',
        "sluice.set_queue_options('orders', '{\"deduplication_window\": null}')",
        "sluice.retire_schedules('shop', array[]::text[])",
        "sluice.unschedule('nightly')",
        "pgmq.drop_queue(queue_name) from pgmq.list_queues()",
    )
    assert value(connection, "select count(*) from pgmq.meta") == 0
    assert value(connection, "select count(*) from pgq.queue") == 0
