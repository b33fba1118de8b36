-- For doctor, `verify changes` and the dashboard. Security definer: sluice_monitor may not read the captures.
create or replace function sluice.list_capture_problems(i_log_name text default null)
returns table (log_name text, source_table regclass, kind text, problem text, hint text)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
begin
    return query
    with trigger as materialized (
        select c.source_table::regclass as source_table, c.trigger_table::regclass as trigger_table, c.trigger_name, c.operation, c.log_name,
            c.options, t.tgenabled, t.tgnargs, r.relispartition,
            exists (select from pgq.queue as q where q.queue_name = c.log_name) as has_log
        from sluice._captures() as c
        join pg_trigger as t on t.tgrelid = c.trigger_table and t.tgname = c.trigger_name
        join pg_class as r on r.oid = c.trigger_table
        where i_log_name is null or c.log_name = i_log_name
    ), firing as (
        select t.log_name, t.source_table, t.trigger_table, t.trigger_name, t.tgenabled
        from trigger as t
        where t.operation <> 'begin'
        union all
        select a.log_name, t.tgrelid::regclass, t.tgrelid::regclass, t.tgname, t.tgenabled
        from pg_trigger as t
        cross join lateral (
            select convert_from(
                substring(t.tgargs from 1 for greatest(position(E'\\x00'::bytea in t.tgargs) - 1, 0)), getdatabaseencoding()
            )
        ) as a (log_name)
        where t.tgfoid in ('pgq.jsontriga()'::regprocedure, 'pgq.logutriga()'::regprocedure, 'pgq.sqltriga()'::regprocedure)
          and (i_log_name is null or a.log_name = i_log_name)
    ), capture as (
        select distinct on (t.log_name, t.source_table) t.log_name, t.source_table, t.options
        from trigger as t
        where t.trigger_table = t.source_table
          and t.options is not null
          and t.tgnargs < 3
          and t.has_log
    )
    select f.log_name, f.source_table, 'disabled',
        format(
            'changes of table %s are not captured: trigger %I %s', f.trigger_table, f.trigger_name,
            case f.tgenabled when 'D' then 'is disabled' else 'fires on replicas only' end
        ),
        format(
            'alter table %s enable trigger %I  -- changes since then are missing: `pgsluice log snapshot` appends the rows',
            f.trigger_table, f.trigger_name
        )
    from firing as f
    where f.tgenabled in ('D', 'R')
    union all
    select c.log_name, c.source_table, 'disabled',
        format('changes of table %s by %s are not captured: the trigger was dropped', c.source_table, o.operation),
        format(
            'select sluice.capture(%L, %L, %L)  -- changes since then are missing: `pgsluice log snapshot` appends the rows',
            c.source_table, c.log_name, c.options
        )
    from capture as c
    cross join lateral unnest('{insert,update,delete,truncate}'::text[]) as o (operation)
    where coalesce(c.options -> 'operations' ? o.operation, true)
      and not exists (
          select
          from trigger as t
          where t.trigger_table = c.source_table
            and t.log_name = c.log_name
            and t.operation = o.operation
      )
    union all
    select t.log_name, t.source_table, 'malformed',
        format('table %s cannot be written: trigger %I has other arguments than sluice.capture writes', t.trigger_table, t.trigger_name),
        case
            when t.has_log then format('select sluice.capture(%L, %L)  -- with the options of the capture', t.source_table, t.log_name)
            else format('drop trigger %I on %s', t.trigger_name, t.trigger_table)
        end
    from trigger as t
    where t.options is null or t.relispartition and t.tgnargs <> 3
    union all
    select distinct t.log_name, t.source_table, 'malformed',
        format('table %s cannot be written: it is captured into event log %L, which does not exist', t.source_table, t.log_name),
        format('select sluice.drop_capture(%L, %L)', t.source_table, t.log_name)
    from trigger as t
    where t.options is not null
      and not t.has_log
    union all
    select t.log_name, t.source_table, 'replicated',
        format(
            'changes of table %s in sessions with session_replication_role = replica are not captured: trigger %I is not enabled always',
            t.trigger_table, t.trigger_name
        ),
        format('alter table %s enable always trigger %I', t.trigger_table, t.trigger_name)
    from trigger as t
    where t.options -> 'replicated' = 'true'
      and t.tgenabled = 'O'
    union all
    select distinct c.log_name, c.source_table, 'unlogged',
        format('table %s is unlogged: a crash of the server empties it without an event', r.oid::regclass),
        format(
            'alter table %s set logged  -- after a crash, `pgsluice lake rebuild` removes the lost rows from a lake', r.oid::regclass
        )
    from capture as c
    join pg_class as r on r.oid = c.source_table or r.oid in (select p.relid from pg_partition_tree(c.source_table) as p)
    where r.relpersistence = 'u'
    union all
    select distinct t.log_name, t.source_table, 'detached',
        format('table %s is detached, and still captured as a partition of its former table', t.source_table),
        format('select sluice.drop_capture(%L, %L)', t.source_table, t.log_name)
    from trigger as t
    where t.tgnargs = 3
      and not t.relispartition
    union all
    select c.log_name, c.source_table::regclass, 'partitions',
        format(
            'partitions of table %s were changed since the last maintenance: %s', c.source_table::regclass,
            string_agg(format('%s is %s', c.partition_name, c.change), ', ' order by c.partition_name)
        ),
        'pgsluice maintain'
    from sluice._partition_changes(i_log_name, null::oid) as c
    where c.change in ('dropped', 'detached', 'attached', 'uncaptured')
    group by c.log_name, c.source_table
    order by 1, 2, 3, 4;
end;
$$;

comment on function sluice.list_capture_problems(text) is
    'Return why changes of captured tables are not captured, or differ from what readers of the log know, each with its way out; of one event log or all. kind: disabled, malformed (writes fail), replicated, unlogged, detached, partitions.';
revoke execute on function sluice.list_capture_problems(text) from public;
grant execute on function sluice.list_capture_problems(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
