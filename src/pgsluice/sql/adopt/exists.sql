-- What can be adopted: schemas of PGMQ and PgQ where pgsluice is not installed, and 'legacy', the tables of PGMQ 0.20 in
-- schema public, also where it is.
with
old_table as (
    select c.relname::text as name
    from pg_catalog.pg_class as c
    where c.relnamespace = pg_catalog.to_regnamespace('public')
      and c.relkind in ('r', 'p')
      and not c.relispartition
      and c.relname ~ '^pgmq_'
      and (
        select pg_catalog.count(*)
        from pg_catalog.pg_attribute as a
        where a.attrelid = c.oid and not a.attisdropped and a.attname in ('msg_id', 'read_ct', 'enqueued_at', 'vt', 'message')
      ) = 5
)
select found.name
from (
    select 1 as position, n.nspname::text as name
    from pg_catalog.pg_namespace as n
    where pg_catalog.to_regclass('sluice.migration') is null
      and (n.nspname = 'pgmq' or n.nspname = 'pgq' and pg_catalog.to_regclass('pgq.event_template') is not null)
    union all
    select 2, 'legacy'
    where exists (
        select
        from pg_catalog.pg_class as c
        where c.oid = pg_catalog.to_regclass('public.pgmq_meta') and c.relkind in ('r', 'p')
      )
      or exists (
        select
        from pg_catalog.pg_extension as e
        join pg_catalog.pg_namespace as n on n.oid = e.extnamespace
        where e.extname = 'pgmq' and n.nspname <> 'pgmq' and e.extversion ~ E'^0\\.'
      )
      or exists (
        select from old_table as t join old_table as archive on archive.name = (t.name || '_archive')::name::text
      )
) as found
order by found.position, found.name;
