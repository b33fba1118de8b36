/*
 * A notifier's cycle: leader election, detection of queues with new sends, and, when it is given queues, a wait in the server
 * for a change, which announces new messages itself: no round trip lies between a commit and its notification.
 *
 * Polling a thousand queues takes 0.1 s; reading a thousand sequences takes 5 ms. So a cycle reads the sequences, and
 * polls only queues whose sequence has moved or whose messages become due.
 *
 * The lock orders the calls of sluice.lead. If each holder of the lock led, notifiers would alternate without knowing each
 * other's announcements, and announce everything twice.
 *
 * A sequence moves when a message is sent, and the message is visible when its transaction commits. So a queue whose
 * sequence has moved is pending: it is read again whenever a transaction has committed, beyond the highest id that has
 * been seen, where no dead index entries are. Everything else (delayed messages, late commits of lower ids, expired
 * claims) is found by sluice.notifier_poll, so this returns soon if a pending queue stays without a visible message.
 *
 * Each expression below takes a new snapshot, because the function is volatile. The transaction holds a snapshot, locks on
 * the sequences and the lock of the leader for the time of the wait: keep it short. It returns after 50 ms if a transaction
 * has begun or ended to write: that snapshot would keep the rows that it deletes. It holds no lock on a queue's table while
 * it waits.
 *
 * Calls: sluice._lock_notifier, sluice.lead, sluice.notifier_wake, pgmq.format_table_name. Reads: the queues' tables.
 */
create or replace function sluice.notifier_pulse(
    notifier integer, standby interval, id_sequences oid[], queue_names text[] default '{}', known_ids bigint[] default '{}',
    seen_ids bigint[] default '{}', is_pending boolean[] default '{}', wait interval default '0', pause interval default '0',
    out is_leader boolean, out server_time timestamptz, out last_ids bigint[], out first_ready bigint[], out last_ready bigint[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '20ms'
as $$
declare
    v_give_up constant interval := '5 ms'; -- for a transaction that has taken an id and not committed yet
    v_share constant integer := 9; -- waits this many times the duration of a look
    v_hold constant interval := '50 ms'; -- maximum time of the snapshot while others write
    v_end timestamptz;
    v_began timestamptz;
    v_pause_s double precision;
    v_hold_end timestamptz;
    v_snapshot text;
    v_first_snapshot text;
    v_read text;
    v_is_new boolean := false;
    v_last_id bigint;
    v_first bigint;
    v_last bigint;
begin
    server_time := clock_timestamp();
    is_leader := sluice._lock_notifier(false) and sluice.lead('notifier'::text, notifier, standby);
    if not is_leader then
        return;
    end if;
    select array_agg(pg_sequence_last_value(c.oid) order by s.position)
    into last_ids
    from unnest(id_sequences) with ordinality as s (id_sequence, position)
    left join pg_class as c on c.oid = s.id_sequence;
    first_ready := array_fill(null::bigint, array[cardinality(queue_names)]);
    last_ready := first_ready;
    v_end := clock_timestamp() + wait;
    v_hold_end := clock_timestamp() + v_hold;
    v_first_snapshot := pg_current_snapshot();
    loop
        v_began := clock_timestamp();
        v_snapshot := pg_current_snapshot();
        for i in 1 .. cardinality(queue_names)
        loop
            v_last_id := pg_sequence_last_value(id_sequences[i]);
            if v_last_id is distinct from known_ids[i] then
                if not is_pending[i] or last_ids[i] is distinct from v_last_id then
                    is_pending[i] := true;
                    v_read := null;
                    v_end := least(v_end, v_began + v_give_up);
                end if;
                last_ids[i] := v_last_id;
            end if;
            if is_pending[i] and v_last_id > seen_ids[i] and v_snapshot is distinct from v_read then
                begin
                    execute format(
                        'select
                            (select ready.msg_id
                             from pgmq.%1$I as ready
                             where ready.vt <= ready.enqueued_at and ready.msg_id > $1
                             order by ready.msg_id
                             limit 1),
                            (select ready.msg_id
                             from pgmq.%1$I as ready
                             where ready.vt <= ready.enqueued_at and ready.msg_id > $1
                             order by ready.msg_id desc
                             limit 1)',
                        pgmq.format_table_name(queue_names[i], 'q')
                    )
                    using seen_ids[i]
                    into v_first, v_last;
                    if v_last is null then
                        raise sqlstate 'RL000'; -- releases the locks on the queue's table
                    else
                        first_ready[i] := v_first;
                        last_ready[i] := v_last;
                        perform sluice.notifier_wake(array[queue_names[i]], false);
                        v_is_new := true;
                    end if;
                exception
                    when sqlstate 'RL000' then
                        null;
                    -- Locked by DDL, dropped, or broken: sluice.notifier_poll warns of it.
                    when others then
                        is_pending[i] := false;
                end;
            end if;
        end loop;
        v_read := v_snapshot;
        exit when v_is_new
            or clock_timestamp() >= v_end
            or v_snapshot <> v_first_snapshot and clock_timestamp() >= v_hold_end;
        v_pause_s := greatest(extract(epoch from pause), extract(epoch from clock_timestamp() - v_began) * v_share);
        perform pg_sleep(least(v_pause_s, extract(epoch from v_end - clock_timestamp())));
    end loop;
exception
    -- A queue is being dropped, or was just dropped.
    when lock_not_available or internal_error then
        last_ids := null;
        first_ready := null;
        last_ready := null;
end;
$$;

comment on function sluice.notifier_pulse(integer, interval, oid[], text[], bigint[], bigint[], boolean[], interval, interval) is
    'Return true if this notifier leads, which it does unless another one has polled within the standby time; then also the last id of each sequence, or null for all if one is being dropped. With queues: wait until a sequence differs from its known id, at most 50 ms if other transactions write, and notify the listeners of queues with visible messages above the seen id; also returns the lowest and highest of these per queue.';
revoke execute on function sluice.notifier_pulse(integer, interval, oid[], text[], bigint[], bigint[], boolean[], interval, interval) from public;
grant execute on function sluice.notifier_pulse(integer, interval, oid[], text[], bigint[], bigint[], boolean[], interval, interval) to sluice_admin, sluice_reader;
