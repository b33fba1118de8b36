create or replace function sluice.log_snapshot(queue_name text, tick_id bigint)
returns pg_snapshot
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (sluice._standing_tick((pgq._require_log(queue_name)).queue_id, tick_id)).tick_snapshot;
end;
$$;

comment on function sluice.log_snapshot(text, bigint) is
    'Return the snapshot of a tick; null if the events after it may be gone. The same number with another snapshot is a tick of another timeline.';
revoke execute on function sluice.log_snapshot(text, bigint) from public;
grant execute on function sluice.log_snapshot(text, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
