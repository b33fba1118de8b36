create or replace function sluice._group_start(i_queue_id integer, i_start jsonb)
returns pgq.tick
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick pgq.tick;
begin
    perform pgq._refuse_restored(i_queue_id);
    if i_start is null or i_start = '"latest"' then
        v_tick := pgq._last_tick(i_queue_id);
        -- The end and not the last tick: events that no tick covers yet were there before the group.
        v_tick.tick_snapshot := pgq._others_snapshot();
        v_tick.tick_event_seq := pgq._event_seq(i_queue_id);
        return v_tick;
    elsif i_start = '"earliest"' then
        return pgq._tick_after(i_queue_id, 0::bigint);
    elsif jsonb_typeof(i_start -> 'tick') = 'number' then
        return pgq._find_tick(i_queue_id, (i_start ->> 'tick')::bigint, true);
    elsif jsonb_typeof(i_start -> 'time') = 'string' then
        -- The last tick at or before this time: later events are in the batches after it.
        select t.* into v_tick
        from pgq.tick as t
        where t.tick_queue = i_queue_id and t.tick_time <= (i_start ->> 'time')::timestamptz
        order by t.tick_id desc
        limit 1;
        if not found then
            return pgq._tick_after(i_queue_id, 0::bigint);
        end if;
        return v_tick;
    end if;
    raise exception using
        errcode = '22023',
        message = format('a share group cannot start at %s', i_start),
        hint = 'use "latest", "earliest", {"tick": 5} or {"time": "2026-01-31T12:00:00Z"}';
end;
$$;

comment on function sluice._group_start(integer, jsonb) is
    'Return the tick after which a new share group starts reading.';
revoke execute on function sluice._group_start(integer, jsonb) from public;
grant execute on function sluice._group_start(integer, jsonb) to pgq_admin, sluice_admin;
