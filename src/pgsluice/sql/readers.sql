-- Every queue's and log's own functions, as this release has them.
do $$
declare
    v_queue_name text;
begin
    -- One bad row of pgmq.meta must not stop the others.
    for v_queue_name in select m.queue_name from pgmq.meta as m order by m.queue_name
    loop
        begin
            perform pgmq._create_reader(v_queue_name);
        exception
            when raise_exception then
                raise warning using
                    message = pg_catalog.format('queue %s is not brought to this release: %s', v_queue_name, sqlerrm),
                    hint = 'delete its row from pgmq.meta';
        end;
    end loop;
    perform pgq._create_log_functions(q.queue_id) from pgq.queue as q;
end;
$$;
-- Every log's rights, as this release has them.
do $$
begin
    perform pgq._grant_queue(q.queue_id), pgq.tune_storage(q.queue_name) from pgq.queue as q;
end;
$$;
-- Every queue's storage settings, as this release has them. A queue's tables belong to the role that created it.
do $$
declare
    v_role constant text := pg_catalog.current_setting('role');
    v_table record;
begin
    for v_table in
        with recursive queue_table (table_oid) as (
            select pg_catalog.to_regclass(pg_catalog.format('pgmq.%I', kind.prefix || pg_catalog.lower(m.queue_name)))::oid
            from pgmq.meta as m
            cross join (values ('q_'), ('a_')) as kind (prefix)
            union
            select i.inhrelid
            from queue_table as t
            join pg_catalog.pg_inherits as i on i.inhparent = t.table_oid
        )
        select c.oid::regclass as table_oid, pg_catalog.pg_get_userbyid(c.relowner) as owner
        from queue_table as t
        join pg_catalog.pg_class as c on c.oid = t.table_oid
        order by c.oid
    loop
        begin
            if not pg_catalog.pg_has_role(v_table.owner, 'usage') then
                perform pg_catalog.set_config('role', v_table.owner::text, true);
            end if;
            perform pgmq._tune_storage(v_table.table_oid);
            perform pg_catalog.set_config('role', v_role, true);
        exception
            when insufficient_privilege or invalid_parameter_value then
                raise warning 'the storage settings of % are not brought to this release: it belongs to %, and % cannot change it',
                    v_table.table_oid, v_table.owner, session_user;
        end;
    end loop;
end;
$$;
