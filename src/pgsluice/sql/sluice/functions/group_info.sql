create or replace function sluice.group_info(
    queue_name text, group_name text,
    out lag_events bigint, out lag_s double precision, out leased bigint, out retrying bigint, out dead bigint
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select s.* into lag_events, lag_s, leased, retrying, dead
    from sluice._group_state(sluice._require_group(queue_name, group_name), queue_name) as s;
end;
$$;

comment on function sluice.group_info(text, text) is
    'How far a share group is behind, in numbers of events and in seconds of the oldest one, and how many events are leased, to come again, and dead.';
revoke execute on function sluice.group_info(text, text) from public;
grant execute on function sluice.group_info(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
