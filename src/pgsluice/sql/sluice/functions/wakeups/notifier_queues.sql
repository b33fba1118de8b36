-- Reads: pgmq.meta and the catalog.
create or replace function sluice.notifier_queues()
returns table (queue_name text, id_sequence oid)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select m.queue_name::text, s.oid
    from pgmq.meta as m
    join pg_class as t
        on t.relnamespace = 'pgmq'::regnamespace
        and t.relname = lower('q_' || m.queue_name)::name
    join pg_attribute as a on a.attrelid = t.oid and a.attname = 'msg_id'
    left join (
        -- Of an identity column, or owned by the column.
        pg_depend as d
        join pg_class as s on s.oid = d.objid and s.relkind = 'S'
    )
        on d.refclassid = 'pg_class'::regclass
        and d.refobjid = t.oid
        and d.refobjsubid = a.attnum
        and d.classid = 'pg_class'::regclass
        and d.deptype in ('i', 'a')
    order by 1;
$$;

comment on function sluice.notifier_queues() is
    'Return the queues of a notifier by name, each with the sequence of its ids (null if it has none).';
revoke execute on function sluice.notifier_queues() from public;
grant execute on function sluice.notifier_queues() to sluice_admin, sluice_reader;
