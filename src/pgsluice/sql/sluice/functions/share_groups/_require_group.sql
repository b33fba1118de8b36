create or replace function sluice._require_group(log_name text, group_name text)
returns sluice.share_group
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group sluice.share_group;
begin
    select g.*
    into v_group
    from sluice.share_group as g
    where g.log_name = _require_group.log_name
      and g.group_name = _require_group.group_name;
    if not found then
        perform pgq._require_log(log_name);
        raise exception using
            errcode = 'SG001',
            table = coalesce(log_name, 'NULL'),
            constraint = coalesce(group_name, 'NULL'),
            message = format('event log %L has no share group %L', log_name, group_name),
            hint = format('create it with sluice.create_group(%L, %L)', log_name, group_name);
    end if;
    return v_group;
end;
$$;

comment on function sluice._require_group(text, text) is
    'Return the row of a share group; an error if it does not exist.';
revoke execute on function sluice._require_group(text, text) from public;
grant execute on function sluice._require_group(text, text) to pgq_admin, sluice_admin;
