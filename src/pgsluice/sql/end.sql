-- Last of every installation and upgrade.

-- Every queue's own function, as this release has it.
do $$
begin
    perform pgmq._create_reader(m.queue_name) from pgmq.meta as m;
end;
$$;

-- Give the caller's transaction back as it was.
select pg_catalog.set_config('role', pg_catalog.current_setting('sluice.role_before'), true);
select pg_catalog.set_config(
    'check_function_bodies', pg_catalog.current_setting('sluice.check_function_bodies_before'), true
);
