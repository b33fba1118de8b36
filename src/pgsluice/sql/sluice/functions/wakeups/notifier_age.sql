create or replace function sluice.notifier_age()
returns interval
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select clock_timestamp() - t.called_at from sluice._turn('notifier'::text) as t);
end;
$$;

comment on function sluice.notifier_age() is
    'Return the time since the last poll of a notifier; null if the last one resigned, or none has polled since the server''s last crash.';
revoke execute on function sluice.notifier_age() from public;
grant execute on function sluice.notifier_age() to sluice_admin, sluice_reader, sluice_monitor;
