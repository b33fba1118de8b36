-- Detaches the members of the adopted extensions, and drops the extensions.
do $$
declare
    v_extension record;
    v_member record;
begin
    for v_extension in
        select e.oid, e.extname
        from pg_extension as e
        where e.extname = any (string_to_array(replace(current_setting('sluice.adopting'), 'legacy', 'pgmq'), ' '))
    loop
        -- From PostgreSQL 17 on, a type's array and a table's row type are detached with it, so they come last.
        for v_member in
            select d.classid, d.objid, case o.type when 'composite type' then 'type' else o.type end as type, o.identity
            from pg_depend as d
            cross join lateral pg_identify_object(d.classid, d.objid, 0) as o
            left join pg_type as t on d.classid = 'pg_type'::regclass and t.oid = d.objid
            where d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass and d.refobjid = v_extension.oid
            order by t.typcategory = 'A' nulls first, t.typrelid nulls first
        loop
            perform
            from pg_depend as d
            where d.classid = v_member.classid and d.objid = v_member.objid and d.deptype = 'e';
            if found then
                execute format('alter extension %I drop %s %s', v_extension.extname, v_member.type, v_member.identity);
            end if;
        end loop;
        execute format('drop extension %I', v_extension.extname);
    end loop;
end;
$$;
