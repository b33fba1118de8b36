-- One installer at a time per database, locked before anything is read. The lock belongs to the transaction that runs
-- the DDL, so it is never left behind, nor released before the DDL is visible.
--
-- It is an advisory lock, because there may be no table yet. Any role that can connect can take it by this key. If the
-- holder's role could not install, the installation proceeds without the lock and names that session.
do $$
declare
    v_path_before constant text := pg_catalog.current_setting('search_path');
    v_timeout_before constant text := pg_catalog.current_setting('lock_timeout');
    v_key constant bigint := pg_catalog.hashtextextended('pgsluice.install', 0);
    v_holder record;
    v_looks integer := 0;
begin
    -- The statements below are parsed when they run, with this search path.
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    while not pg_try_advisory_xact_lock(v_key) loop
        v_looks := v_looks + 1;
        select a.pid, a.usename, coalesce(a.application_name, '') as application_name,
            has_database_privilege(a.usesysid, l.database, 'create')
                or coalesce(pg_has_role(a.usesysid, n.nspowner, 'member'), false) as may_install
        into v_holder
        from pg_locks as l
        join pg_stat_activity as a on a.pid = l.pid
        left join pg_namespace as n on n.nspname = 'sluice'
        where l.locktype = 'advisory'
          and l.database = (select d.oid from pg_database as d where d.datname = current_database())
          and (l.classid::bigint << 32) | l.objid::bigint = v_key
          and l.objsubid = 1
          and l.granted
        limit 1;
        if found and not v_holder.may_install then
            raise warning 'installation goes on without its lock, which is held by pid %, role %, application %',
                v_holder.pid, v_holder.usename, quote_literal(v_holder.application_name)
                using hint = 'its role may not install; end the session with pg_terminate_backend';
            -- A remaining safeguard where the schema is already installed.
            if to_regclass('sluice.migration') is not null then
                lock table sluice.migration in share row exclusive mode;
            end if;
            exit;
        end if;
        if found and v_looks = 1 then
            raise notice 'waiting for another installation: pid %, role %, application %',
                v_holder.pid, v_holder.usename, quote_literal(v_holder.application_name);
        end if;
        -- Check periodically: another session may hold the lock by then.
        begin
            perform set_config('lock_timeout', '2s', true);
            perform pg_advisory_xact_lock(v_key);
            perform set_config('lock_timeout', v_timeout_before, true);
            exit;
        exception
            when lock_not_available then
                null;
        end;
    end loop;
    perform set_config('search_path', v_path_before, true);
end;
$$;
