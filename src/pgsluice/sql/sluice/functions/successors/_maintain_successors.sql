/*
 * Finds messages that left their queue unseen by its triggers: see README.md. A row is checked a minute after it was written, and
 * then after as much time as it has waited, at most an hour.
 *
 * Calls: sluice._finish_predecessors. Reads: the queues, by msg_id. Writes: sluice.predecessor.
 */
create or replace function sluice._maintain_successors(rows_max integer default 1000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_due record;
    v_queued bigint[];
    v_gone bigint[];
begin
    task := 'successors';
    for v_due in
        with due as (
            update sluice.predecessor as p
            set check_at = v_now + least(greatest(v_now - p.noted_at, interval '1 minute'), interval '1 hour')
            where (p.queue_table, p.msg_id, p.successor_id) in (
                select d.queue_table, d.msg_id, d.successor_id
                from sluice.predecessor as d
                where d.check_at <= v_now
                order by d.check_at
                limit rows_max
                for update skip locked
            )
            returning p.queue_table, p.msg_id
        )
        select due.queue_table, array_agg(distinct due.msg_id) as msg_ids from due group by due.queue_table order by 1
    loop
        queue_name := substr(v_due.queue_table, 3);
        begin
            v_queued := '{}';
            if to_regclass(format('pgmq.%I', v_due.queue_table)) is not null then
                execute format('select coalesce(array_agg(q.msg_id), ''{}'') from pgmq.%I as q where q.msg_id = any ($1)', v_due.queue_table)
                using v_due.msg_ids
                into v_queued;
            end if;
            v_gone := array(select m.msg_id from unnest(v_due.msg_ids) as m (msg_id) where m.msg_id <> all (v_queued));
            continue when v_gone = '{}';
            perform sluice._finish_predecessors(v_due.queue_table, v_gone);
            done := true;
            detail := format('%s messages that others wait for are not in the queue', cardinality(v_gone));
        exception
            -- A table is being altered, or a row is locked. It must not stop the other queues.
            when others then
                done := false;
                detail := format('%s (%s)', sqlerrm, sqlstate);
        end;
        return next;
    end loop;
end;
$$;

comment on function sluice._maintain_successors(integer) is
    'Release messages that wait for messages that are not in their queue any more; one row per queue that had such.';
revoke execute on function sluice._maintain_successors(integer) from public;
grant execute on function sluice._maintain_successors(integer) to sluice_admin;
