-- Must run before the tables are dropped, because the settings are found by them. Also drops the template table that
-- create_parent made, which has no other use.
create or replace function pgmq._partman_forget(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schema name;
    v_template text;
begin
    select n.nspname
    into v_schema
    from pg_extension as e
    join pg_namespace as n on n.oid = e.extnamespace
    where e.extname = 'pg_partman';
    if not found then
        return;
    end if;
    -- A role that drops an unpartitioned queue needs no rights on pg_partman.
    perform
    from pg_class as c
    where c.relnamespace = 'pgmq'::regnamespace
      and c.relname in (pgmq.format_table_name(queue_name, 'q'), pgmq.format_table_name(queue_name, 'a'))
      and c.relkind = 'p'
      and c.relname not in (select p.table_name from sluice.partitioned_table as p);
    if not found then
        return;
    end if;
    for v_template in execute format(
        'delete from %I.part_config as c where c.parent_table = any ($1) returning c.template_table', v_schema
    )
    using array[
        'pgmq.' || pgmq.format_table_name(queue_name, 'q'), 'pgmq.' || pgmq.format_table_name(queue_name, 'a')
    ]
    loop
        -- Only a table that create_parent made: this runs with the rights of the schemas' owner.
        if v_template ~ E'\\.template_pgmq_'
            and exists (
                select
                from pg_class as c
                where c.relnamespace = to_regnamespace(quote_ident(v_schema))
                  and c.relname = substr(v_template, strpos(v_template, '.') + 1)
                  and pg_has_role(c.relowner, 'usage')
            )
        then
            execute format(
                'drop table if exists %I.%I', split_part(v_template, '.', 1), substr(v_template, strpos(v_template, '.') + 1)
            );
        end if;
    end loop;
end;
$$;

comment on function pgmq._partman_forget(text) is
    'Remove the tables of a queue from pg_partman''s settings, where that is installed.';
revoke execute on function pgmq._partman_forget(text) from public;
grant execute on function pgmq._partman_forget(text) to sluice_admin;
