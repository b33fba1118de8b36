-- Runs as the caller, who reads pgq.queue: it reveals nothing that the caller may not read.
create or replace function sluice.list_extra_maint()
returns table (queue_name text, function_name text)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select extra.queue_name, extra.function_name
    from pgq._extra_maint(quote_ident(current_user)::regrole::oid) as extra
    order by extra.queue_name, extra.extra_position;
$$;

comment on function sluice.list_extra_maint() is
    'Return the functions that logs name in queue_extra_maint, in the order in which to call them with the log''s name.';
revoke execute on function sluice.list_extra_maint() from public;
grant execute on function sluice.list_extra_maint() to pgq_admin, sluice_admin;
