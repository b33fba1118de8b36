-- Runs with the rights of the caller, whom the log must not lead to code of other roles: sluice.list_extra_maint has the rules.
--
-- Only functions that the log names: a caller cannot be led to call another one. As from PgQ's daemon, it runs with the
-- default search_path of the caller's sessions, but without schemas in which other roles could create a function or an
-- operator that the called function then finds.
create or replace function sluice.run_extra_maint(log_name text, function_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_runner constant oid := quote_ident(current_user)::regrole;
    v_refusal text;
    v_path text;
begin
    select extra.refusal
    into v_refusal
    from sluice.list_extra_maint(v_runner) as extra
    where extra.log_name = run_extra_maint.log_name
      and extra.function_name = run_extra_maint.function_name;
    if not found then
        return false;
    end if;
    if v_refusal is not null then
        raise exception using
            errcode = 'insufficient_privilege',
            message = format('%s is not called for event log %L: %s', function_name, log_name, v_refusal),
            hint = 'remove it from queue_extra_maint in pgq.queue; or give the function, and its schema, to a superuser or '
                'to the owner of the schemas, and let the administrators of logs call it';
    end if;
    perform set_config('search_path', s.reset_val, true) from pg_settings as s where s.name = 'search_path';
    select string_agg(quote_ident(on_path.name), ', ' order by on_path.position)
    into v_path
    from unnest(current_schemas(false)) with ordinality as on_path (name, position)
    join pg_namespace as n on n.nspname = on_path.name
    where sluice._trusts(v_runner, on_path.name::text)
      and not exists (
        select
        from aclexplode(n.nspacl) as a
        where a.privilege_type = 'CREATE'
          and a.grantee <> 'pg_database_owner'::regrole
          and (a.grantee = 0 or not sluice._trusts(v_runner, a.grantee))
      );
    perform set_config('search_path', concat_ws(', ', 'pg_catalog', v_path, 'pg_temp'), true);
    execute format('select %s($1::pg_catalog.text)', pgq.quote_fqname(function_name)) using log_name;
    return true;
end;
$$;

comment on function sluice.run_extra_maint(text, text) is
    'Call a function that a log names in queue_extra_maint, with the log''s name; false if the log does not name it. Raise an error if its code would lend the caller''s rights to another role.';
revoke execute on function sluice.run_extra_maint(text, text) from public;
grant execute on function sluice.run_extra_maint(text, text) to pgq_admin, sluice_admin;
