create or replace function sluice.drop_capture(source_table regclass, log_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_trigger record;
    v_dropped boolean := false;
begin
    -- By the arguments of the triggers instead of the log's id: the log may be dropped already.
    for v_trigger in
        select c.trigger_name, c.trigger_table::regclass as trigger_table
        from sluice._captures() as c
        where c.source_table = drop_capture.source_table
          and c.log_name = drop_capture.log_name
    loop
        execute format('drop trigger %I on %s', v_trigger.trigger_name, v_trigger.trigger_table);
        v_dropped := true;
    end loop;
    if v_dropped then
        perform sluice.note_action(
            'drop_capture'::text, log_name, jsonb_build_object('source_table', source_table::text), null::bigint, null::text
        );
    end if;
    return v_dropped;
end;
$$;

comment on function sluice.drop_capture(regclass, text) is
    'Stop capturing the table into the event log; false if it was not captured. Existing events stay.';
revoke execute on function sluice.drop_capture(regclass, text) from public;
grant execute on function sluice.drop_capture(regclass, text) to pgq_admin, sluice_admin;
