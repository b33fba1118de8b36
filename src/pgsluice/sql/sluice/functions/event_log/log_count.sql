create or replace function sluice.log_count(log_name text, after pg_snapshot, upto pg_snapshot, at_most bigint)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_count bigint;
begin
    execute format(
        'select count(*) from (select from (%s) as event where event.ev_owner is null limit $1) as events',
        pgq._events_between_sql((pgq._require_log(log_name)).queue_id, after, upto, 1, 1)
    )
    using at_most
    into v_count;
    return v_count;
end;
$$;

comment on function sluice.log_count(text, pg_snapshot, pg_snapshot, bigint) is
    'Return the number of events that upto sees and after does not, counted up to at_most.';
revoke execute on function sluice.log_count(text, pg_snapshot, pg_snapshot, bigint) from public;
grant execute on function sluice.log_count(text, pg_snapshot, pg_snapshot, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
