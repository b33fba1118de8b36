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
            'pgmq._default_partition_length', 'pgmq._drop_reader',
            'pgq._create_log_functions', 'pgq._drop_log_functions',
            'pgq._trigger_columns', 'pgq._trigger_key', 'pgq._trigger_magic', 'pgq._trigger_type',
            'sluice._capture_whole', 'sluice._json_value', 'sluice._latest_slot', 'sluice._look_at_lease', 'sluice._look_at_leases',
            'sluice._put_back', 'sluice._require_key', 'sluice._return_events', 'sluice._send_back', 'sluice._send_deduplicated',
            'sluice._take_key', 'sluice._wait_for_limits'
        ])
    loop
        execute format('drop function %s', v_function);
    end loop;
end;
$$;
