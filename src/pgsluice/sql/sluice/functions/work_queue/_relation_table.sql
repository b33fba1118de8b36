create or replace function sluice._relation_table(queue_name text, relation text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if relation is null or relation not in ('queue', 'archive') then
        raise exception using
            errcode = '22023',
            message = format('relation %L is neither queue nor archive', relation),
            hint = 'use queue or archive';
    end if;
    return pgmq.format_table_name(queue_name, case relation when 'queue' then 'q' else 'a' end);
end;
$$;

comment on function sluice._relation_table(text, text) is
    'Return the name of the table of a queue (relation queue) or its archive (archive).';
revoke execute on function sluice._relation_table(text, text) from public;
grant execute on function sluice._relation_table(text, text) to sluice_admin, sluice_monitor, sluice_reader;
