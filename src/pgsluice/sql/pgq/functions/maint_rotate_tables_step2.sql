create or replace function pgq.maint_rotate_tables_step2()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._finish_switch(q.queue_id) from pgq.queue as q where q.queue_switch_step2 is null;
    perform pgq._maintain_positions(8388608::bigint);
    perform pgq._maintain_retry(8388608::bigint, 20000);
    perform from sluice.maintain_groups(null::text);
    return 0;
end;
$$;

comment on function pgq.maint_rotate_tables_step2() is
    'Finish the open switches of all event logs, maintain share groups, and remove obsolete moves, retry entries and claims; returns 0.';
revoke execute on function pgq.maint_rotate_tables_step2() from public;
grant execute on function pgq.maint_rotate_tables_step2() to pgq_admin, sluice_admin;
