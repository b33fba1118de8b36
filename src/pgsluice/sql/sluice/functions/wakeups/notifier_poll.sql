/*
 * The ends of the range that a read would find, per queue: the lowest and highest id of the ready messages, the earliest
 * and latest time of the deferred ones that are due, and the next due time.
 *
 * Each is one index entry (see pgmq/README.md). But a held snapshot keeps dead entries at the head, and an end is then
 * behind them all; so the caller can pass a start, and gets the duration. Then the next due time is not read either: the
 * entries before it are the current claims, with as many dead entries.
 *
 * A queue that is locked by DDL or dropped is left out, so that the others do not wait. One that fails is left out with a
 * warning.
 *
 * Calls: pgmq.format_table_name. Reads: the queues' tables.
 */
create or replace function sluice.notifier_poll(queue_names text[], ready_after bigint[], due_after timestamptz[])
returns table (
    queue_name text,
    first_ready bigint,
    last_ready bigint,
    first_due timestamptz,
    last_due timestamptz,
    next_due timestamptz,
    cost interval
)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '20ms'
as $$
declare
    -- A transaction could not hold the locks of thousands of queues: beyond this number, each is read in a subtransaction
    -- that is rolled back, which releases its locks.
    v_kept_max constant integer := 100;
    v_looked integer := 0;
    v_ready_after bigint;
    v_due_after timestamptz;
    v_queue text;
    v_now timestamptz;
    v_first_deferred timestamptz;
begin
    for queue_name, v_ready_after, v_due_after in
        select * from unnest(queue_names, ready_after, due_after)
    loop
        v_queue := pgmq.format_table_name(queue_name, 'q');
        v_ready_after := coalesce(v_ready_after, -9223372036854775808);
        v_due_after := coalesce(v_due_after, '-infinity');
        v_now := clock_timestamp();
        last_ready := null;
        first_due := null;
        last_due := null;
        begin
            execute format(
                'select
                    (select ready.msg_id
                     from pgmq.%1$I as ready
                     where ready.vt <= ready.enqueued_at and ready.msg_id > $1
                     order by ready.msg_id
                     limit 1),
                    (select deferred.vt
                     from pgmq.%1$I as deferred
                     where deferred.vt > deferred.enqueued_at and deferred.vt > $2 and deferred.vt <= $3
                     order by deferred.vt
                     limit 1)',
                v_queue
            )
            using v_ready_after, v_due_after, case when v_due_after = '-infinity' then 'infinity' else v_now end
            into first_ready, v_first_deferred;

            if first_ready is not null then
                execute format(
                    'select ready.msg_id
                     from pgmq.%I as ready
                     where ready.vt <= ready.enqueued_at and ready.msg_id > $1
                     order by ready.msg_id desc
                     limit 1',
                    v_queue
                )
                using v_ready_after
                into last_ready;
            end if;

            next_due := v_first_deferred;
            if v_first_deferred <= v_now then
                first_due := v_first_deferred;
                execute format(
                    'select due.vt
                     from pgmq.%I as due
                     where due.vt > due.enqueued_at and due.vt > $1 and due.vt <= $2
                     order by due.vt desc
                     limit 1',
                    v_queue
                )
                using v_due_after, v_now
                into last_due;
                next_due := null;
                if v_due_after = '-infinity' then
                    execute format(
                        'select deferred.vt
                         from pgmq.%I as deferred
                         where deferred.vt > deferred.enqueued_at and deferred.vt > $1
                         order by deferred.vt
                         limit 1',
                        v_queue
                    )
                    using v_now
                    into next_due;
                end if;
            end if;
            v_looked := v_looked + 1;
            if v_looked > v_kept_max then
                raise sqlstate 'RL000';
            end if;
        exception
            when sqlstate 'RL000' then
                null;
            when undefined_table or lock_not_available then
                continue;
            -- For example a manually changed table, or a missing privilege. It must not stop the other queues.
            when others then
                raise warning using
                    errcode = sqlstate, message = format('listeners of queue %s are not woken: %s', queue_name, sqlerrm);
                continue;
        end;
        cost := clock_timestamp() - v_now;
        return next;
    end loop;
end;
$$;

comment on function sluice.notifier_poll(text[], bigint[], timestamptz[]) is
    'Return per queue the ends of the range that a read would find, beyond the given id and time (null: all, with the next due time); locked and dropped queues are left out.';
revoke execute on function sluice.notifier_poll(text[], bigint[], timestamptz[]) from public;
grant execute on function sluice.notifier_poll(text[], bigint[], timestamptz[]) to sluice_admin, sluice_reader;
