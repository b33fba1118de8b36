-- PGMQ lets pg_monitor read the payloads of queues. It is a member of sluice_monitor, which cannot.
do $$
declare
    v_table record;
begin
    if pg_catalog.to_regrole('pg_monitor') is null then
        return;
    end if;
    for v_table in
        select c.oid::pg_catalog.regclass as name
        from pgmq.meta as m
        cross join (values ('q_'), ('a_')) as k (kind)
        join pg_catalog.pg_class as c
            on c.relnamespace = 'pgmq'::pg_catalog.regnamespace
            and c.relname = pg_catalog.lower(k.kind || m.queue_name)::name
        where pg_catalog.has_table_privilege('pg_monitor', c.oid, 'select')
          and pg_catalog.pg_has_role(c.relowner, 'usage')
    loop
        execute pg_catalog.format('revoke select on %s from pg_monitor', v_table.name);
    end loop;
end;
$$;
