-- For names that may have no row yet. By hash, so that the rows are few: two names of one hash wait for each other, too.
create or replace function sluice._lock_name(i_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_class constant integer := 1936486765;
    v_id constant integer := hashtext(i_name);
begin
    loop
        perform from sluice.lock as l where l.class = v_lock_class and l.id = v_id for update;
        exit when found;
        -- Waits for a transaction that has inserted it.
        insert into sluice.lock (class, id) values (v_lock_class, v_id) on conflict on constraint lock_pkey do nothing;
    end loop;
end;
$$;

comment on function sluice._lock_name(text) is
    'Lock a name until the end of the transaction; waits for a transaction that has locked it.';
revoke execute on function sluice._lock_name(text) from public;
grant execute on function sluice._lock_name(text) to pgq_admin, sluice_admin;
