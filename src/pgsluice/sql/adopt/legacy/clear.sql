-- Drops PGMQ's functions, whose names pgsluice gives to its own.
do $$
declare
    v_signature text;
begin
    for v_signature in select f.signature from adopted_old_function as f
    loop
        execute format('drop function %s', v_signature);
    end loop;
    if exists (select from pg_class as c where c.oid = to_regclass('public.pgmq_meta') and c.relkind in ('r', 'p')) then
        drop table public.pgmq_meta; -- its rows are in adopted_old_queue
    end if;
end;
$$;
