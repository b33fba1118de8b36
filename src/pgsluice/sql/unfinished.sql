-- After an installation inside the caller's transaction that could not change all queues and logs.
do $$
begin
    raise notice using
        message = pg_catalog.format(
            '%s queues, tables of queues or event logs are not brought to this release yet',
            (select count(*) from sluice._outdated(null::text[], null::integer[]))
        ),
        detail = 'One transaction locks at most a quarter of the server''s table of locks. They work as before.',
        hint = 'run `pgsluice schema upgrade`, which uses several transactions';
end;
$$;
