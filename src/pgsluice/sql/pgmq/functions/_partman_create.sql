-- Registers a table with pg_partman 4, with PGMQ's settings. pg_partman's own maintenance must run. Calls: pg_partman's
-- create_parent. Writes: its part_config.
create or replace function pgmq._partman_create(
    table_name name, partition_interval text, retention_interval text, premake integer
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schema name;
    v_parent text := format('pgmq.%s', table_name);
begin
    select n.nspname
    into v_schema
    from pg_extension as e
    join pg_namespace as n on n.oid = e.extnamespace
    where e.extname = 'pg_partman';
    execute format(
        'select %I.create_parent(
            p_parent_table => $1, p_control => $2, p_type => ''native'', p_interval => $3, p_premake => $4
        )',
        v_schema
    )
    using
        v_parent, (sluice._partition_key(format('pgmq.%I', table_name)::regclass)).key_name::text, partition_interval, premake;
    execute format(
        'update %I.part_config
         set retention = $2, retention_keep_table = false, retention_keep_index = true, automatic_maintenance = ''on''
         where parent_table = $1',
        v_schema
    )
    using v_parent, retention_interval;
end;
$$;

comment on function pgmq._partman_create(name, text, text, integer) is
    'Let pg_partman create and drop the partitions of this table.';
revoke execute on function pgmq._partman_create(name, text, text, integer) from public;
grant execute on function pgmq._partman_create(name, text, text, integer) to sluice_admin;
