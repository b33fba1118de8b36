-- Security definer: only the owner may lock the rows. The wait is bounded: a claim takes milliseconds, so a transaction
-- that holds a lock for seconds was left open.
create or replace function sluice._wait_for_lock(i_class integer, i_id integer, out holder text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    v_sessions text;
begin
    loop
        perform from sluice.lock as l where l.class = i_class and l.id = i_id for update;
        exit when found;
        insert into sluice.lock (class, id) values (i_class, i_id) on conflict on constraint lock_pkey do nothing;
    end loop;
exception
    when lock_not_available then
        -- The row has the holder's transaction id. That of a savepoint does not lead to its session: then all sessions that
        -- hold a lock of this kind are named.
        select sluice._session(k.pid)
        into v_sessions
        from sluice.lock as l
        join pg_locks as k on k.locktype = 'transactionid' and k.transactionid = l.xmax and k.granted
        where l.class = i_class and l.id = i_id
        limit 1;
        if not found then
            select string_agg(sluice._session(k.pid), '; ' order by k.pid)
            into v_sessions
            from pg_locks as k
            where k.locktype = 'relation'
              and k.database = (select d.oid from pg_database as d where d.datname = current_database())
              and k.relation = 'sluice.lock'::regclass
              and k.mode = 'RowShareLock'
              and k.granted
              and k.pid <> pg_backend_pid();
        end if;
        holder := coalesce('Its session has ' || v_sessions || '.', 'Its session has ended by now.');
end;
$$;

comment on function sluice._wait_for_lock(integer, integer) is
    'Lock a row of sluice.lock until the end of the transaction, waiting for about two seconds; returns null, or the session that holds the lock.';
revoke execute on function sluice._wait_for_lock(integer, integer) from public;
grant execute on function sluice._wait_for_lock(integer, integer) to pgq_admin, sluice_admin, sluice_reader;
