-- Data that an uninstallation would destroy: one row per queue and log, and for dead letters if any. Of
-- tables that are missing nothing can be listed; tables of queues are named where pgmq.meta is missing.
do $$
declare
    v_source record;
    v_found jsonb;
    v_contents jsonb := '[]';
begin
    for v_source in
        select s.query
        from (values
            ('pgmq.meta', 'select ''queue'' as kind, m.queue_name::text as name from pgmq.meta as m'),
            ('pgq.queue', 'select ''log'' as kind, q.queue_name as name from pgq.queue as q'),
            ('sluice.dead_letter', 'select distinct ''dead letters of'' as kind, d.queue_name as name from sluice.dead_letter as d'),
            ('sluice.schedule', 'select ''schedule'' as kind, s.name from sluice.schedule as s')
        ) as s (table_name, query)
        where to_regclass(s.table_name) is not null
        union all
        select format(
            'select ''table'' as kind, %L as name where exists (select from %s)', c.oid::regclass, c.oid::regclass
        )
        from pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
        where c.relkind in ('r', 'p')
          and (
            n.nspname = 'pgmq' and c.relname ~ '^[qa]_' and to_regclass('pgmq.meta') is null
            or n.nspname = 'pgq' and c.relname ~ '^event_[0-9]+_[0-9]+$' and to_regclass('pgq.queue') is null
          )
    loop
        execute format('select coalesce(jsonb_agg(t), ''[]'') from (%s) as t', v_source.query) into v_found;
        v_contents := v_contents || v_found;
    end loop;
    perform set_config('sluice.contents', v_contents::text, true);
end;
$$;
select t.kind, t.name
from pg_catalog.jsonb_to_recordset(pg_catalog.current_setting('sluice.contents')::jsonb) as t (kind text, name text)
order by 1, 2;
