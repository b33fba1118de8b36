create or replace function sluice.drop_capture(source_table regclass, queue_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_trigger record;
    v_dropped boolean := false;
begin
    -- By what the triggers were created with, not by the log's id: the log may be gone already.
    for v_trigger in
        select t.tgname, format('%I.%I', n.nspname, c.relname) as source_table
        from pg_trigger as t
        join pg_class as c on c.oid = t.tgrelid
        join pg_namespace as n on n.oid = c.relnamespace
        where t.tgrelid = drop_capture.source_table
          and t.tgfoid = 'sluice.capture_changes()'::regprocedure
          and t.tgargs = convert_to(drop_capture.queue_name, getdatabaseencoding()) || '\x00'::bytea
    loop
        execute format('drop trigger %I on %s', v_trigger.tgname, v_trigger.source_table);
        v_dropped := true;
    end loop;
    return v_dropped;
end;
$$;

comment on function sluice.drop_capture(regclass, text) is
    'Stop capturing the table into the event log; false when it was not captured. Events already there stay.';
revoke execute on function sluice.drop_capture(regclass, text) from public;
grant execute on function sluice.drop_capture(regclass, text) to pgq_admin, sluice_admin;
