-- With the policy delete, a detached partition is no longer captured: its events would put its rows back. Attached again, it
-- is a new one.
create or replace function sluice._follow_partitions(i_log_name text, i_source_table oid)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice.drop_capture(c.partition_oid::regclass, c.log_name)
    from sluice._partition_changes(i_log_name, i_source_table) as c
    where c.change = 'detached'
      and c.policy = 'delete'
      and c.is_captured;
    perform sluice._note_partitions(i_log_name, i_source_table);
end;
$$;

comment on function sluice._follow_partitions(text, oid) is
    'Note the partitions of a captured table, and stop the capture of detached ones if the lake deletes their rows.';
revoke execute on function sluice._follow_partitions(text, oid) from public;
grant execute on function sluice._follow_partitions(text, oid) to pgq_admin, sluice_admin;
