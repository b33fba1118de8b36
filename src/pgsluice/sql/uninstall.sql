select
    pg_catalog.set_config('sluice.messages_before', pg_catalog.current_setting('client_min_messages'), true),
    pg_catalog.set_config('client_min_messages', 'warning', true);
-- Cascade: event tables inherit, and captured tables have triggers that call our functions.
do $$
declare
    v_schemas text;
begin
    select string_agg(n.nspname, ', ' order by n.nspname)
    into v_schemas
    from pg_namespace as n
    where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
      and n.nspname = any (string_to_array(current_setting('sluice.uninstalled'), ' '));
    if v_schemas is not null then
        execute format('drop schema %s cascade', v_schemas);
    end if;
end;
$$;
select pg_catalog.set_config('client_min_messages', pg_catalog.current_setting('sluice.messages_before'), true);
