-- breaking: no
-- Internal functions that were renamed or merged into their callers.
do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select p.oid::regprocedure
        from pg_proc as p
        join pg_namespace as n on n.oid = p.pronamespace
        where format('%s.%s', n.nspname, p.proname) = any (array[
            'sluice._json_value', 'sluice._look_at_lease', 'sluice._look_at_leases', 'sluice._put_back', 'sluice._require_key',
            'sluice._return_events', 'sluice._send_back', 'sluice._take_key'
        ])
    loop
        execute format('drop function %s', v_function);
    end loop;
end;
$$;
