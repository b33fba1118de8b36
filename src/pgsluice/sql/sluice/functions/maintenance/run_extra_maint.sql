-- Runs with the rights of the caller, who could call the function directly; pgq.maint_operations explains who may name one.
--
-- Only functions that the log names: a caller cannot be led to call another one. As from PgQ's daemon, it runs with the
-- default search_path of the caller's sessions.
create or replace function sluice.run_extra_maint(queue_name text, function_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_statement constant text := format('select %s($1)', pgq.quote_fqname(function_name));
begin
    if not exists (
        select
        from sluice.list_extra_maint() as extra
        where extra.queue_name = run_extra_maint.queue_name
          and extra.function_name = run_extra_maint.function_name
    ) then
        return false;
    end if;
    perform set_config('search_path', s.reset_val, true) from pg_settings as s where s.name = 'search_path';
    execute v_statement using queue_name;
    return true;
end;
$$;

comment on function sluice.run_extra_maint(text, text) is
    'Call a function that a log names in queue_extra_maint, with the log''s name; false if the log does not name it.';
revoke execute on function sluice.run_extra_maint(text, text) from public;
grant execute on function sluice.run_extra_maint(text, text) to pgq_admin, sluice_admin;
