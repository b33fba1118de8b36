-- For a partitioned table, in the transaction that partitioned it. Calls: _create_default_partition,
-- _premake_partitions. Writes: sluice.partitioned_table.
create or replace function sluice._manage_partitions(
    table_name name, queue_name text, partition_interval text, retention_interval text, premake integer
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_parent regclass := to_regclass(format('pgmq.%I', table_name));
begin
    insert into sluice.partitioned_table as p (table_name, queue_name, partition_interval, retention_interval, premake)
    values (table_name, queue_name, partition_interval, retention_interval, premake)
    on conflict on constraint partitioned_table_pkey do update
    set partition_interval = excluded.partition_interval,
        retention_interval = excluded.retention_interval,
        premake = excluded.premake;
    if (sluice._partition_key(v_parent)).default_partition is null then
        perform sluice._create_default_partition(v_parent);
    end if;
    perform sluice._premake_partitions(v_parent, queue_name, partition_interval, premake);
end;
$$;

comment on function sluice._manage_partitions(name, text, text, text, integer) is
    'Let sluice.maintain() create and drop the partitions of this table; creates the first ones, or changes the settings.';
revoke execute on function sluice._manage_partitions(name, text, text, text, integer) from public;
grant execute on function sluice._manage_partitions(name, text, text, text, integer) to sluice_admin;
