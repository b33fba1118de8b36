-- Reads: the catalogs. Tables not partitioned by range of one id or time column have no key here.
create or replace function sluice._partition_key(
    parent regclass, out key_name name, out is_time boolean, out default_partition regclass
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select a.attname, a.atttypid = 'timestamptz'::regtype, nullif(p.partdefid, 0)::regclass
    from pg_partitioned_table as p
    join pg_attribute as a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
    where p.partrelid = parent
      and p.partstrat = 'r'
      and p.partnatts = 1
      and a.atttypid in ('bigint'::regtype, 'timestamptz'::regtype);
$$;

comment on function sluice._partition_key(regclass) is
    'Return the partition column of a table and its default partition; nulls if it is not partitioned.';
revoke execute on function sluice._partition_key(regclass) from public;
grant execute on function sluice._partition_key(regclass) to sluice_admin, sluice_reader, sluice_monitor;
