create or replace function pgq._segment_span(
    i_queue_id integer, i_number integer, out first_tick bigint, out last_tick bigint, out last_time timestamptz, out is_empty boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format(
        'select min(t.tick_id), max(t.tick_id), max(t.tick_time), max(t.tick_id) is null and not exists (select from only pgq.%I)
         from only pgq.%I as t',
        format('event_%s_%s', i_queue_id, i_number), format('tick_%s_%s', i_queue_id, i_number)
    )
    into first_tick, last_tick, last_time, is_empty;
end;
$$;

comment on function pgq._segment_span(integer, integer) is
    'Return the first and last tick of a segment and its latest tick time, null if it has none; empty: it has no events either.';
revoke execute on function pgq._segment_span(integer, integer) from public;
grant execute on function pgq._segment_span(integer, integer) to pgq_admin, sluice_admin;
