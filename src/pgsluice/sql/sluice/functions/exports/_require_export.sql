create or replace function sluice._require_export(queue_name text, export_name text)
returns sluice.export
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text := sluice._registered_name(queue_name);
    v_export sluice.export;
begin
    select e.*
    into v_export
    from sluice.export as e
    where e.queue_name = v_queue_name and e.export_name = _require_export.export_name;
    if not found then
        raise exception using
            errcode = 'QU006',
            table = coalesce(queue_name, 'NULL'),
            constraint = coalesce(export_name, 'NULL'),
            message = format('queue %L has no export %L', queue_name, export_name),
            hint = 'create it with sluice.create_export(); sluice.list_exports() lists the existing ones';
    end if;
    return v_export;
end;
$$;

comment on function sluice._require_export(text, text) is
    'Return an export of a queue''s archive; raise an error if it does not exist.';
revoke execute on function sluice._require_export(text, text) from public;
grant execute on function sluice._require_export(text, text) to sluice_admin, sluice_reader;
