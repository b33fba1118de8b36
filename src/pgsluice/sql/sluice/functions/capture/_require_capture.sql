create or replace function sluice._require_capture(source_table regclass, queue_name text)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_options jsonb;
begin
    if source_table is null or queue_name is null then
        raise exception using
            errcode = '22004',
            message = 'table or event log is null',
            hint = 'name a captured table and its event log';
    end if;
    perform sluice._require_all_rows(source_table);
    select c.options
    into v_options
    from sluice.list_captures(_require_capture.queue_name) as c
    where c.source_table = _require_capture.source_table
      and c.enabled;
    if not found then
        raise exception using
            errcode = 'PQ007',
            message = format('%s is not captured into event log %L', source_table, queue_name),
            detail = 'A snapshot is only useful together with the changes, so they must be captured first.',
            hint = format('capture it first: select sluice.capture(%L, %L); its triggers must be enabled', source_table, queue_name);
    end if;
    return v_options;
end;
$$;

comment on function sluice._require_capture(regclass, text) is
    'Return the options of a capture; raise an error if no snapshot of the table can be taken.';
revoke execute on function sluice._require_capture(regclass, text) from public;
grant execute on function sluice._require_capture(regclass, text) to pgq_admin, sluice_admin;
