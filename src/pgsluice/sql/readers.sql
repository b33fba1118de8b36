/*
 * Every queue's and log's own functions, rights and storage settings, as this release has them. The catalog is compared first: what is as
 * it should be is neither changed nor locked. Replacing a function takes no lock, but ALTER TABLE, GRANT and COMMENT do, so this stops
 * at a quarter of the server's table of locks. The setting sluice.left_outdated then holds how many queues, tables of queues and logs remain; the next
 * installation continues with them, and until then they work as before.
 *
 * Runs as the owner of the schemas, who then owns what it creates.
 *
 * One queue or log that fails, such as a bad row in pgmq.meta, is named in a warning, and stops no other.
 */
do $$
declare
    v_role constant text := pg_catalog.current_setting('role');
    v_slots constant integer := sluice._lock_slots();
    -- A look at all locks takes milliseconds, so it is made once for several objects.
    v_look_every constant integer := greatest(1, least(20, v_slots / 100));
    v_locks bigint := (select count(*) from pg_catalog.pg_locks as l where l.pid = pg_catalog.pg_backend_pid());
    v_locks_max constant bigint := v_locks + v_slots / 4;
    v_outdated record;
    v_changed integer := 0;
    v_failed integer := 0;
    v_left integer := 0;
begin
    for v_outdated in select m.queue_name::text from pgmq.meta as m where m.queue_name ~ '\$|;|--|'''
    loop
        raise warning using
            message = pg_catalog.format(
                'queue %s is not brought to this release: queue name contains invalid characters', v_outdated.queue_name
            ),
            hint = 'delete its row from pgmq.meta';
    end loop;
    for v_outdated in select * from sluice._outdated()
    loop
        if v_locks > v_locks_max then
            v_left := v_left + 1;
            continue;
        end if;
        begin
            if v_outdated.queue_id is not null then
                -- A rotation changes the same rows of pg_class by TRUNCATE: see pgq._grant_queue.
                perform from pgq.queue as q where q.queue_id = v_outdated.queue_id for no key update;
            end if;
            if not pg_catalog.pg_has_role(v_outdated.owner, 'usage') then
                perform pg_catalog.set_config('role', v_outdated.owner::text, true);
            end if;
            execute v_outdated.statement;
            perform pg_catalog.set_config('role', v_role, true);
            v_changed := v_changed + 1;
        exception
            when out_of_memory then
                raise; -- of the table of locks, too
            when others then
                v_failed := v_failed + 1;
                raise warning '% of % are not brought to this release: %', v_outdated.what, v_outdated.name, sqlerrm
                    using errcode = sqlstate, detail = pg_catalog.format('It belongs to %s.', v_outdated.owner);
        end;
        if (v_changed + v_failed) % v_look_every = 0 then
            v_locks := (select count(*) from pg_catalog.pg_locks as l where l.pid = pg_catalog.pg_backend_pid());
        end if;
    end loop;
    perform pg_catalog.set_config('sluice.left_outdated', v_left::text, true);
end;
$$;
