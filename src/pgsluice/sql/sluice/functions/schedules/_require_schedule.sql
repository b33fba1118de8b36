create or replace function sluice._require_schedule(i_name text)
returns sluice.schedule
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule sluice.schedule;
begin
    select s.* into v_schedule from sluice.schedule as s where s.name = i_name;
    if not found then
        raise exception using
            errcode = 'RS001',
            table = coalesce(i_name, 'NULL'),
            message = format('schedule %L does not exist', i_name),
            hint = 'sluice.list_schedules() lists the existing schedules';
    end if;
    return v_schedule;
end;
$$;

comment on function sluice._require_schedule(text) is
    'Return the row of a schedule by name; raise an error if it does not exist.';
revoke execute on function sluice._require_schedule(text) from public;
grant execute on function sluice._require_schedule(text) to sluice_admin;
