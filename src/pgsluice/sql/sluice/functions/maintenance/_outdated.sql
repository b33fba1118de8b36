/*
 * Differences that readers.sql corrects: a row per reader of a queue, table of a queue or archive, and event log that
 * differs from this release, with the statements that correct it and the owner who runs them: that of the schemas, or that
 * of a queue's table that could not be transferred. For all queues and logs, or the given ones. Reads the catalog and
 * locks none of these tables.
 *
 * Calls: pgmq._outdated_readers, pgmq._outdated_storage, pgq._outdated_functions, pgq._outdated_grants, pgq._outdated_storage.
 */
create or replace function sluice._outdated(queue_names text[] default null, queue_ids integer[] default null)
returns table (what text, name text, owner name, queue_id integer, statement text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    v_owner constant name := (select pg_get_userbyid(n.nspowner) from pg_namespace as n where n.nspname = 'sluice');
    v_logs constant integer[] := coalesce(queue_ids, array(select q.queue_id from pgq.queue as q order by q.queue_id));
    -- A name that pgmq.format_table_name refuses was inserted manually.
    v_names constant text[] := coalesce(
        queue_names,
        array(select m.queue_name::text from pgmq.meta as m where m.queue_name !~ E'\\$|;|--|''' order by m.queue_name)
    );
    v_tables oid[];
begin
    v_tables := array(
        with recursive queue_table (table_oid) as (
            select to_regclass(format('pgmq.%I', pgmq.format_table_name(n.name, kind.prefix)))::oid
            from unnest(v_names) as n (name)
            cross join (values ('q'), ('a')) as kind (prefix)
            union
            select i.inhrelid
            from queue_table as t
            join pg_inherits as i on i.inhparent = t.table_oid
        )
        select t.table_oid from queue_table as t where t.table_oid is not null
    );
    return query
        select 'functions'::text, format('queue %s', r.queue_name), v_owner, null::integer, r.statement
        from pgmq._outdated_readers(v_names) as r;
    return query
        select 'storage settings'::text, format('table %s', s.table_oid::regclass), pg_get_userbyid(c.relowner), null::integer, s.statement
        from pgmq._outdated_storage(v_tables) as s
        join pg_class as c on c.oid = s.table_oid;
    return query
        select string_agg(distinct o.what, ', ' order by o.what), format('event log %s', q.queue_name), v_owner, o.queue_id,
            string_agg(o.statement, '; ' order by o.step)
        from (
            select f.queue_id, 1 as step, 'functions' as what, f.statement from pgq._outdated_functions(v_logs) as f
            union all
            select g.queue_id, 2, 'rights', g.statement from pgq._outdated_grants(v_logs) as g
            union all
            select s.queue_id, 3, 'storage settings', s.statement from pgq._outdated_storage(v_logs) as s
        ) as o
        join pgq.queue as q on q.queue_id = o.queue_id
        group by o.queue_id, q.queue_name;
end;
$$;

comment on function sluice._outdated(text[], integer[]) is
    'Return the queues, tables of queues and event logs that differ from this release, with the statements that correct them.';
revoke execute on function sluice._outdated(text[], integer[]) from public;
grant execute on function sluice._outdated(text[], integer[]) to sluice_admin;
