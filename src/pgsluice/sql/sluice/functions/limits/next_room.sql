-- A claim that found no room tells nobody when there will be some, and what is ready already is announced to nobody again. So whoever
-- waits asks this. It takes no lock: what it says is a moment to look, not a promise.
create or replace function sluice.next_room(queue_name text)
returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_pause constant interval := '250 ms';
    v_limits sluice.queue_limits;
    v_now timestamptz := clock_timestamp();
    v_room record;
    v_is_visible boolean;
begin
    select l.*
    into v_limits
    from sluice.queue_limits as l
    where l.queue_table = pgmq.format_table_name(next_room.queue_name, 'q');
    if num_nonnulls(
        v_limits.fleet_concurrency, v_limits.key_concurrency, v_limits.rate, v_limits.when_waiting
    ) = 0 then
        return null;
    end if;
    v_room := sluice._room(v_limits, v_now);
    if v_room.room > 0 and v_limits.key_concurrency is null and v_limits.when_waiting is null then
        return null;
    end if;
    execute format(
        'select
            exists (select from pgmq.%1$I as q where q.vt <= q.enqueued_at and q.vt <= $1 order by q.msg_id limit 1)
            or exists (select from pgmq.%1$I as q where q.vt > q.enqueued_at and q.vt <= $1 order by q.vt limit 1)',
        v_limits.queue_table
    )
    using v_now
    into v_is_visible;
    if not v_is_visible then
        return null;
    end if;
    -- When a place or a key becomes free is up to those who have it.
    return coalesce(v_room.free_at, v_now + v_pause);
end;
$$;

comment on function sluice.next_room(text) is
    'When to claim again from a queue whose limits have left visible messages where they are: at that moment a rate has room again, or perhaps somebody is done; null: they have not.';
revoke execute on function sluice.next_room(text) from public;
grant execute on function sluice.next_room(text) to sluice_admin, sluice_reader;
