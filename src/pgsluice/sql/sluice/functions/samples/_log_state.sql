-- Security definer: a monitor may not call some of the functions that this one does.
create or replace function sluice._log_state(
    log_name text,
    out kind text, out reader_name text, out in_flight bigint, out sent bigint, out finished bigint, out dead bigint,
    out lag_events bigint, out lag_s double precision, out pinned_bytes bigint, out retrying bigint
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_sent constant bigint := pgq._event_seq((pgq._require_log(log_name)).queue_id);
begin
    return query
        select 'consumer', c.consumer_name, null::bigint, v_sent, greatest(0, v_sent - c.lag_events), null::bigint,
            c.lag_events, c.lag_s, c.pinned_bytes, null::bigint
        from sluice.list_consumers(_log_state.log_name) as c
        where c.last_tick is not null and c.lost is null
          and not exists (
              select
              from sluice.share_group as g
              where g.log_name = _log_state.log_name and g.group_name = c.consumer_name
          )
        union all
        select 'group', g.group_name, g.leased, v_sent, greatest(0, v_sent - g.lag_events - g.leased - g.retrying), g.dead,
            g.lag_events, g.lag_s, null, g.retrying
        from sluice.list_groups(_log_state.log_name, null::text) as g
        where g.lost is null;
end;
$$;

comment on function sluice._log_state(text) is 'Return the figures of the consumers and share groups of one event log.';
revoke execute on function sluice._log_state(text) from public;
grant execute on function sluice._log_state(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
