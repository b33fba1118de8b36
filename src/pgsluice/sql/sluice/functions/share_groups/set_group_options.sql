create or replace function sluice.set_group_options(log_name text, group_name text, options jsonb)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group sluice.share_group := sluice._require_group(log_name, group_name);
    v_new sluice.share_group;
    v_fixed text;
begin
    select o.name into v_fixed
    from unnest(array['key', 'start', 'when_waiting']) as o (name)
    where options ? o.name
    order by o.name
    limit 1;
    if found then
        raise exception using
            errcode = 'SG004',
            message = format('the option %L of a share group cannot change', v_fixed),
            hint = 'create another group with it; to drop this one gives up its events that wait, its retries and its position';
    end if;
    -- Locked before it is read, so that concurrent changes of different options both take effect.
    select g.* into v_group from sluice.share_group as g where g.group_id = v_group.group_id for no key update;
    v_new := sluice._group_settings(v_group, options);
    if v_new is not distinct from v_group then
        return 'unchanged';
    end if;
    update sluice.share_group as g
    set lease = v_new.lease,
        max_attempts = v_new.max_attempts,
        max_deliveries = v_new.max_deliveries,
        backoff = v_new.backoff,
        backoff_base = v_new.backoff_base,
        backoff_max = v_new.backoff_max,
        backoff_jitter = v_new.backoff_jitter,
        unhandled = v_new.unhandled
    where g.group_id = v_group.group_id;
    return 'changed';
end;
$$;

comment on function sluice.set_group_options(text, text, jsonb) is
    'Change the given options of a share group, null for the default; existing claims keep their lease. Returns changed or unchanged.';
revoke execute on function sluice.set_group_options(text, text, jsonb) from public;
grant execute on function sluice.set_group_options(text, text, jsonb) to pgq_admin, sluice_admin;
