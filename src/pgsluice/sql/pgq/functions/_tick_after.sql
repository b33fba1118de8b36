-- Hot path: each call of next_batch looks for a tick, and most find none. A number that the sequence has not given out
-- needs no lookup. Security definer: every role may read ticks, but not their sequence.
create or replace function pgq._tick_after(i_queue_id integer, i_tick_id bigint)
returns pgq.tick
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick pgq.tick;
begin
    if pg_sequence_last_value(format('pgq.event_%s_tick_seq', i_queue_id)::regclass) > i_tick_id then
        -- Usually it is the next number, in the current segment.
        execute format(
            'select t.* from pgq.%I as t where t.tick_id = $1',
            (select format('tick_%s_%s', i_queue_id, q.queue_cur_table) from pgq.queue as q where q.queue_id = i_queue_id)
        )
        using i_tick_id + 1
        into v_tick;
        if v_tick.tick_id is null then
            execute format('select t.* from pgq.%I($1) as t', format('tick_%s_after', i_queue_id))
            using i_tick_id
            into v_tick;
        end if;
    end if;
    return v_tick;
end;
$$;

comment on function pgq._tick_after(integer, bigint) is
    'Return the first tick of a log after a tick; null fields if there is none.';
revoke execute on function pgq._tick_after(integer, bigint) from public;
grant execute on function pgq._tick_after(integer, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
