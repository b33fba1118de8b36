create or replace function sluice.log_tick_at(queue_name text, moment timestamptz)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_tick_id bigint;
begin
    v_queue_id := (pgq._require_log(queue_name)).queue_id;
    -- Transactions committed at or after the time are seen by later ticks only.
    execute format('select max(t.tick_id) from pgq.%I as t where t.tick_time <= $1', format('tick_%s', v_queue_id))
    using moment
    into v_tick_id;
    return coalesce(v_tick_id, (pgq._tick_after(v_queue_id, 0::bigint)).tick_id);
end;
$$;

comment on function sluice.log_tick_at(text, timestamptz) is
    'Return the last tick at or before a time, or the oldest one kept: the events after it include everything committed since.';
revoke execute on function sluice.log_tick_at(text, timestamptz) from public;
grant execute on function sluice.log_tick_at(text, timestamptz) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
