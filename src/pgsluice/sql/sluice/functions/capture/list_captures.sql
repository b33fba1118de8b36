-- Security definer: sluice_monitor may not read the triggers' arguments by sluice._captures.
create or replace function sluice.list_captures(i_log_name text default null)
returns table (source_table regclass, log_name text, options jsonb, operations text[], enabled boolean)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select c.source_table::regclass, c.log_name, c.options,
        array_agg(distinct c.operation order by c.operation) filter (where c.operation <> 'begin'), coalesce(bool_and(c.enabled and c.options is not null), false)
    from sluice._captures() as c
    where i_log_name is null or c.log_name = i_log_name
    group by c.source_table, c.log_name, c.options
    order by c.log_name, c.source_table::regclass::text;
end;
$$;

comment on function sluice.list_captures(text) is
    'Return captured tables with their log, options and operations, of one log or all; enabled: no trigger is disabled or has malformed options, which are null.';
revoke execute on function sluice.list_captures(text) from public;
grant execute on function sluice.list_captures(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
