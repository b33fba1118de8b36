create or replace function sluice.unschedule(name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Waits for whoever fires it now: when this has committed, it fires no more.
    delete from sluice.schedule as s where s.name = unschedule.name;
    return found;
end;
$$;

comment on function sluice.unschedule(text) is
    'Forget a schedule; what it has sent stays. False: there is none of this name.';
revoke execute on function sluice.unschedule(text) from public;
grant execute on function sluice.unschedule(text) to sluice_admin;
