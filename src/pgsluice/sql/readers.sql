/*
 * Updates the functions, rights and storage settings of each queue and log to this release. The catalog is compared
 * first: whatever is current is neither changed nor locked. Replacing a function takes no lock, but ALTER TABLE, GRANT
 * and COMMENT do, so this stops at a quarter of the server's lock table. The setting sluice.bring_from then holds the
 * name at which the next transaction continues, so that thousands of queues are compared once, a page at a time. Until
 * then the others work as before.
 *
 * Runs as the owner of the schemas, who then owns what it creates.
 *
 * A queue or log that fails, such as a bad row in pgmq.meta, is named in a warning and does not stop the others.
 */
do $$
declare
    v_role constant text := pg_catalog.current_setting('role');
    v_slots constant integer := sluice._lock_slots();
    -- Reading pg_locks takes milliseconds, so it is read once for several objects.
    v_look_every constant integer := greatest(1, least(20, v_slots / 100));
    v_locks bigint := (select count(*) from pg_catalog.pg_locks as l where l.pid = pg_catalog.pg_backend_pid());
    v_locks_max constant bigint := v_locks + v_slots / 4;
    v_page_max constant integer := 100;
    v_from constant text := coalesce(pg_catalog.current_setting('sluice.bring_from', true), '');
    v_page record;
    v_outdated record;
    v_done integer := 0;
begin
    for v_outdated in select m.queue_name::text from pgmq.meta as m where m.queue_name ~ E'\\$|;|--|'''
    loop
        raise warning using
            message = pg_catalog.format(
                'queue %s is not brought to this release: queue name contains invalid characters', v_outdated.queue_name
            ),
            hint = 'rename its tables and its row in pgmq.meta; or delete the row, with which its topic bindings and settings go: tables stay';
    end loop;
    perform pg_catalog.set_config('sluice.bring_from', '', true);
    <<pages>>
    for v_page in
        select min(o.key) as first_key,
            coalesce(array_agg(o.queue_name) filter (where o.queue_name is not null), '{}') as queue_names,
            coalesce(array_agg(o.queue_id) filter (where o.queue_id is not null), '{}') as queue_ids
        from (
            select o.*, row_number() over (order by o.key) as position
            from (
                select 'queue ' || m.queue_name::text collate "C" as key, m.queue_name::text, null::integer as queue_id
                from pgmq.meta as m
                where m.queue_name !~ E'\\$|;|--|'''
                union all
                select pg_catalog.format('tables of log %s', pg_catalog.lpad(q.queue_id::text, 10, '0')), null, q.queue_id
                from pgq.queue as q
            ) as o
            where o.key >= v_from
        ) as o
        group by (o.position - 1) / v_page_max
        order by 1
    loop
        for v_outdated in select * from sluice._outdated(v_page.queue_names, v_page.queue_ids)
        loop
            if v_locks > v_locks_max then
                perform pg_catalog.set_config('sluice.bring_from', v_page.first_key, true);
                exit pages;
            end if;
            begin
                if v_outdated.queue_id is not null then
                    -- A rotation changes the same rows of pg_class by TRUNCATE: see pgq.grant_perms.
                    perform from pgq.queue as q where q.queue_id = v_outdated.queue_id for no key update;
                end if;
                if not pg_catalog.pg_has_role(v_outdated.owner, 'usage') then
                    perform pg_catalog.set_config('role', v_outdated.owner::text, true);
                end if;
                execute v_outdated.statement;
                perform pg_catalog.set_config('role', v_role, true);
            exception
                when out_of_memory then
                    raise; -- includes a full lock table
                when others then
                    raise warning '% of % are not brought to this release: %', v_outdated.what, v_outdated.name, sqlerrm
                        using errcode = sqlstate, detail = pg_catalog.format('It belongs to %s.', v_outdated.owner);
            end;
            v_done := v_done + 1;
            if v_done % v_look_every = 0 then
                v_locks := (select count(*) from pg_catalog.pg_locks as l where l.pid = pg_catalog.pg_backend_pid());
            end if;
        end loop;
    end loop;
end;
$$;
