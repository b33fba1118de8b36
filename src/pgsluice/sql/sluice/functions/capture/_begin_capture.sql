-- The trigger before each statement of a captured table. Its name is the last in the order in which triggers run. It runs with
-- the rights of the writer, who may call no function of the schema, and without a search_path of its own, which would take
-- twice as long: all names are qualified.
--
-- Entries of sluice.nested that are deeper than this statement are of earlier statements. They become entries of its own
-- depth: they are within the statements around it, and not within it.
create or replace function sluice._begin_capture()
returns trigger
language plpgsql
as $$
declare
    v_depth integer;
    v_place text;
    v_noted pg_catalog.jsonb;
    v_entries pg_catalog.jsonb;
begin
    if pg_catalog.current_setting('sluice.nested', true) operator(pg_catalog.<>) '' then
        v_depth := pg_catalog.pg_trigger_depth();
        v_place := pg_catalog.concat(
            coalesce(pg_catalog.pg_partition_root(tg_relid)::pg_catalog.oid, tg_relid), ' ',
            pg_catalog.substring(tg_name::pg_catalog.text, '[0-9]+$')
        );
        v_noted := pg_catalog.current_setting('sluice.nested');
        select pg_catalog.jsonb_object_agg(e.depth, e.first_id)
        into v_entries
        from (
            select pg_catalog.int4smaller(n.key::pg_catalog.int4, v_depth) as depth, pg_catalog.min(n.value::pg_catalog.int8) as first_id
            from pg_catalog.jsonb_each_text(v_noted operator(pg_catalog.->) v_place) as n
            group by 1
        ) as e
        where e.depth operator(pg_catalog.>) 1;
        v_noted := v_noted operator(pg_catalog.-) v_place;
        if v_entries is not null then
            v_noted := v_noted operator(pg_catalog.||) pg_catalog.jsonb_build_object(v_place, v_entries);
        end if;
        perform pg_catalog.set_config(
            'sluice.nested',
            case when v_noted operator(pg_catalog.=) '{}' then '' else v_noted::pg_catalog.text end,
            true
        );
    end if;
    return null;
end;
$$;

comment on function sluice._begin_capture() is
    'Trigger of captured tables before a statement: events of earlier statements are not those of statements within this one.';
revoke execute on function sluice._begin_capture() from public;
grant execute on function sluice._begin_capture() to pgq_admin, sluice_admin;
