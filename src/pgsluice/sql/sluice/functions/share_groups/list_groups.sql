create or replace function sluice.list_groups(
    queue_name text default null,
    out log_name text, out group_name text, out lease interval, out max_attempts integer, out max_deliveries integer,
    out backoff text, out backoff_base interval, out backoff_cap interval, out backoff_jitter boolean,
    out key text, out when_waiting text, out unhandled text, out lost text,
    out lag_events bigint, out lag_s double precision, out leased bigint, out retrying bigint, out dead bigint
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group record;
begin
    if queue_name is not null then
        perform pgq._require_log(queue_name);
    end if;
    for v_group in
        select q.queue_name, g.group_name
        from sluice.share_group as g
        join pgq.queue as q on q.queue_id = g.queue_id
        where list_groups.queue_name is null or q.queue_name = list_groups.queue_name
        order by q.queue_name, g.group_name
    loop
        begin
            return query select i.* from sluice.group_info(v_group.queue_name, v_group.group_name) as i;
            -- The rollback releases the locks: a transaction could not hold those of thousands of groups.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
        end;
    end loop;
end;
$$;

comment on function sluice.list_groups(text) is
    'Return the share groups of one log or all, with their settings, lag, and numbers of leased, retrying and dead-lettered events; dead letters are counted up to 10,000.';
revoke execute on function sluice.list_groups(text) from public;
grant execute on function sluice.list_groups(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
