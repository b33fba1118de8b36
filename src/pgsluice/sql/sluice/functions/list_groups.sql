create or replace function sluice.list_groups(
    queue_name text default null,
    out log_name text, out group_name text, out lease interval, out max_attempts integer, out max_deliveries integer,
    out backoff text, out backoff_base interval, out backoff_cap interval, out backoff_jitter boolean,
    out dead_letter_log text, out key text, out when_waiting text, out lost text,
    out lag_events bigint, out lag_s double precision, out leased bigint, out retrying bigint, out dead bigint
)
returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row record;
    v_group sluice.share_group;
    v_state record;
begin
    if queue_name is not null then
        perform pgq._require_log(queue_name);
    end if;
    for v_row in
        select q.queue_name, g as settings
        from sluice.share_group as g
        join pgq.queue as q on q.queue_id = g.queue_id
        where list_groups.queue_name is null or q.queue_name = list_groups.queue_name
        order by q.queue_name, g.group_name
    loop
        log_name := v_row.queue_name;
        v_group := v_row.settings;
        group_name := v_group.group_name;
        lease := v_group.lease;
        max_attempts := v_group.max_attempts;
        max_deliveries := v_group.max_deliveries;
        backoff := v_group.backoff;
        backoff_base := v_group.backoff_base;
        backoff_cap := v_group.backoff_cap;
        backoff_jitter := v_group.backoff_jitter;
        dead_letter_log := v_group.dead_letter_log;
        key := v_group.key;
        when_waiting := v_group.when_waiting;
        lost := v_group.lost;
        select s.* into v_state from sluice._group_state(v_group, log_name) as s;
        lag_events := v_state.lag_events;
        lag_s := v_state.lag_s;
        leased := v_state.leased;
        retrying := v_state.retrying;
        dead := v_state.dead;
        return next;
    end loop;
end;
$$;

comment on function sluice.list_groups(text) is
    'The share groups of one log or of all, with their settings, how far behind they are, and how many events are leased, to come again, and dead.';
revoke execute on function sluice.list_groups(text) from public;
grant execute on function sluice.list_groups(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
