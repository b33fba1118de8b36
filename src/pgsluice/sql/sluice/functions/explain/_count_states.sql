/*
 * Of deferred messages, the first 5,000 by time are counted by state: at_least is true if there are more.
 *
 * Calls: pgmq._count. Reads: the queue by its indexes of ready and of deferred messages.
 */
create or replace function sluice._count_states(i_queue_name text)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_counted_max constant integer := 5000;
    v_table constant text := pgmq.format_table_name(i_queue_name, 'q');
    v_now constant timestamptz := clock_timestamp();
    v_deferred jsonb;
    v_due jsonb;
    v_ready_since timestamptz;
    v_length jsonb;
begin
    select to_jsonb(c) into v_length from (select n.length, n.visible from pgmq._count(v_table, v_now) as n) as c;
    execute format(
        'select to_jsonb(c)
         from (
            select count(*) filter (where d.last_read_at is not null) as in_flight,
                count(*) filter (where d.last_read_at is null and d.read_ct > 0) as waiting,
                count(*) filter (where d.last_read_at is null and d.read_ct = 0) as delayed,
                count(*) > $2 as at_least,
                min(d.vt) filter (where d.last_read_at is not null) as lease_until,
                min(d.vt) filter (where d.last_read_at is null) as due_at
            from (
                select m.vt, m.last_read_at, m.read_ct
                from pgmq.%I as m
                where m.vt > m.enqueued_at and m.vt > $1
                order by m.vt
                limit $2 + 1
            ) as d
         ) as c',
        v_table
    )
    using v_now, v_counted_max
    into v_deferred;
    execute format(
        'select to_jsonb(c)
         from (
            select count(*) filter (where d.last_read_at is not null) as expired,
                min(d.vt) filter (where d.last_read_at is not null) as expired_since, min(d.vt) as due_since
            from (
                select m.vt, m.last_read_at
                from pgmq.%I as m
                where m.vt > m.enqueued_at and m.vt <= $1
                order by m.vt
                limit $2
            ) as d
         ) as c',
        v_table
    )
    using v_now, v_counted_max
    into v_due;
    execute format(
        'select m.enqueued_at from pgmq.%I as m where m.vt <= m.enqueued_at and m.vt <= $1 order by m.msg_id limit 1', v_table
    )
    using v_now
    into v_ready_since;
    return v_length || v_deferred || v_due || jsonb_build_object('ready_since', v_ready_since);
end;
$$;

comment on function sluice._count_states(text) is
    'Return the numbers of messages of a queue by state, and the first times of each.';
revoke execute on function sluice._count_states(text) from public;
grant execute on function sluice._count_states(text) to sluice_admin;
