create or replace function sluice.list_groups(
    inout log_name text default null, inout group_name text default null,
    out lease interval, out max_attempts integer, out max_deliveries integer,
    out backoff text, out backoff_base interval, out backoff_max interval, out backoff_jitter boolean,
    out key text, out when_waiting text, out unhandled text, out lost text,
    out lag_events bigint, out lag_s double precision, out leased bigint, out retrying bigint, out dead bigint
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group sluice.share_group;
begin
    if group_name is not null then
        perform sluice._require_group(log_name, group_name);
    elsif log_name is not null then
        perform pgq._require_log(log_name);
    end if;
    for v_group in
        select g.*
        from sluice.share_group as g
        where (list_groups.log_name is null or g.log_name = list_groups.log_name)
          and (list_groups.group_name is null or g.group_name = list_groups.group_name)
        order by g.log_name, g.group_name
    loop
        begin
            return query
                select v_group.log_name, v_group.group_name, v_group.lease, v_group.max_attempts, v_group.max_deliveries,
                    v_group.backoff, v_group.backoff_base, v_group.backoff_max, v_group.backoff_jitter,
                    v_group.key, v_group.when_waiting, v_group.unhandled, v_group.lost,
                    s.lag_events, s.lag_s, s.leased, s.retrying, s.dead
                from sluice._group_state(v_group) as s;
            -- The rollback releases the locks: a transaction could not hold those of thousands of groups.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
        end;
    end loop;
end;
$$;

comment on function sluice.list_groups(text, text) is
    'Return the share groups of one log or all, or one of them, with their settings, their lag in events and in seconds of the oldest one, and their numbers of leased, retrying and dead-lettered events; dead letters are counted up to 10,000.';
revoke execute on function sluice.list_groups(text, text) from public;
grant execute on function sluice.list_groups(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
