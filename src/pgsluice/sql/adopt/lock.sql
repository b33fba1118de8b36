-- Locks every table that will change. A client that holds one lock and requests another must never become the victim
-- of a deadlock: this waits long for a table only while it holds no other lock, and gets all the others, or releases
-- all locks, before deadlock_timeout of the first session that waits for it.
do $$
declare
    v_tables text[];
    v_table text;
    v_deadline timestamptz := clock_timestamp()
        + make_interval(secs => current_setting('sluice.lock_deadline_s')::double precision);
    v_alone_ms_max constant integer := 5000; -- long enough to cancel an autovacuum
    v_together interval := current_setting('deadlock_timeout')::interval * 0.7;
    v_lock_timeout_before text := current_setting('lock_timeout');
    v_until timestamptz;
    v_wait_ms integer;
begin
    select array_agg(t.name order by t.name) into v_tables from adopted_table as t;

    loop
        begin
            v_until := null;
            foreach v_table in array v_tables
            loop
                v_wait_ms := extract(epoch from coalesce(v_until, v_deadline) - clock_timestamp()) * 1000;
                perform set_config('lock_timeout', greatest(least(v_wait_ms, v_alone_ms_max), 1)::text, true);
                execute format('lock table %s in access exclusive mode', v_table);
                v_until := coalesce(v_until, clock_timestamp() + v_together);
            end loop;
            perform set_config('lock_timeout', v_lock_timeout_before, true);
            exit;
        exception
            when lock_not_available then
                if clock_timestamp() >= v_deadline then
                    raise exception using
                        errcode = 'lock_not_available',
                        message = format('could not lock the tables within %s s', current_setting('sluice.lock_deadline_s')),
                        detail = format('The last one waited for was %s.', v_table),
                        hint = format(
                            'end long-running transactions (look for %s in pg_locks), or try at a quieter time; nothing was changed',
                            v_table
                        );
                end if;
        end;
        -- The table that was not available starts the next round, and is waited for alone.
        v_tables := array_prepend(v_table, array_remove(v_tables, v_table));
    end loop;
end;
$$;
