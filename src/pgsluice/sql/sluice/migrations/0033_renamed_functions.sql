-- breaking: no
-- Internal functions of share groups that were renamed.
do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select p.oid::regprocedure
        from pg_proc as p
        join pg_namespace as n on n.oid = p.pronamespace
        where n.nspname = 'sluice' and p.proname = any (array['_bury', '_read_mail', '_error_without_lapse'])
    loop
        execute format('drop function %s', v_function);
    end loop;
end;
$$;
