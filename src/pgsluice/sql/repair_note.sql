-- A warning per object that repair.py has created.
do $$
declare
    v_line text;
begin
    for v_line in select l.line from pg_catalog.jsonb_array_elements_text(pg_catalog.current_setting('sluice.repaired')::jsonb) as l (line)
    loop
        raise warning '%', v_line;
    end loop;
end;
$$;
