-- Every table that changes, before anything does. A session that holds one of them and wants another must never be the
-- victim of a deadlock with us: so we wait long for one table only while we hold none, and have all the others, or let go
-- of all, before the first session that waits for us looks for a deadlock.
do $$
declare
    v_tables text[];
    v_table text;
    v_deadline timestamptz := clock_timestamp()
        + make_interval(secs => current_setting('sluice.lock_deadline_s')::double precision);
    v_alone_ms_max constant integer := 5000; -- also enough for a vacuum to give way
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
                        message = format('the tables could not be locked within %s s', current_setting('sluice.lock_deadline_s')),
                        detail = format('The last one waited for was %s.', v_table),
                        hint = format(
                            'end the transactions that are long in progress (look for %s in pg_locks), or try at a quieter time; nothing was changed',
                            v_table
                        );
                end if;
        end;
        -- What could not be had begins the next round, and is waited for alone.
        v_tables := array_prepend(v_table, array_remove(v_tables, v_table));
    end loop;
end;
$$;
