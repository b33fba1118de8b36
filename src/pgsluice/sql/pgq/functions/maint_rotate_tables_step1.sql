create or replace function pgq.maint_rotate_tables_step1(i_queue_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._rotate(q.queue_id, true) from pgq.queue as q where q.queue_name = i_queue_name;
    return 0;
end;
$$;

comment on function pgq.maint_rotate_tables_step1(text) is
    'Truncate the unneeded segments of an event log, and switch to another one if due; returns 0. sluice.rotate returns what was done.';
revoke execute on function pgq.maint_rotate_tables_step1(text) from public;
grant execute on function pgq.maint_rotate_tables_step1(text) to pgq_admin, sluice_admin;
