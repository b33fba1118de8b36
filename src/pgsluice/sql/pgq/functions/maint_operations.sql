-- The work list of PgQ's daemon: it runs each row as `select func_name(func_arg)`, and `vacuum` rows as that command.
--
-- queue_extra_maint names functions that the daemon then runs with its own rights, often a superuser's. It is given only
-- those that do not lend these rights to the role that wrote the name: see sluice.list_extra_maint.
create or replace function pgq.maint_operations(out func_name text, out func_arg text)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select 'pgq.maint_rotate_tables_step1', q.queue_name
        from pgq.queue as q
        where clock_timestamp() - q.queue_switch_time > q.queue_rotation_period
           or q.queue_switch_time > clock_timestamp() -- the clock was set back
        order by q.queue_name;
    -- Always: it also truncates tables that are not of one log.
    return query select 'pgq.maint_rotate_tables_step2', null::text;
    return query
        select extra.function_name, extra.log_name
        from sluice.list_extra_maint(sluice._caller_id()::oid) as extra
        where extra.refusal is null
        order by extra.log_name, extra.extra_position;
    return query select 'vacuum', t.name from pgq.maint_tables_to_vacuum() as t (name);
end;
$$;

comment on function pgq.maint_operations() is
    'List the maintenance that is due, as functions with an optional argument, and tables to vacuum.';
revoke execute on function pgq.maint_operations() from public;
grant execute on function pgq.maint_operations() to pgq_admin, sluice_admin;
