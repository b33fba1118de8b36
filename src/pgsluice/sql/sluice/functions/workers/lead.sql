/*
 * Leader election: one session at a time runs the maintenance of a database, so that the others need not.
 *
 * It only saves work: any number of sessions may run the same maintenance concurrently. So the lock belongs to the session
 * and ends with it. A leader cut off by the network would keep it for hours: the server ends its session after some time
 * without a message. Behind a pooler the lock would stay with a server session that other clients use; there the backend pid
 * that the client knows is not that of the server process.
 *
 * Any role that can connect can take an advisory lock, including this one. If the role of the holder may not lead, this
 * session leads without the lock, with a warning that names the holder.
 *
 * Standbys receive a heartbeat with each call of the leader, so that they need not poll.
 *
 * Calls: sluice._session.
 */
create or replace function sluice.lead(backend_pid integer)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_silence_max constant text := '5s';
    -- As in sluice.notifier_wake.
    v_usage_max constant double precision := 0.5;
    v_key constant bigint := hashtextextended('sluice.lead', 0);
    v_foreign text;
begin
    if backend_pid is distinct from pg_backend_pid() then
        return null;
    end if;
    if not pg_try_advisory_lock(v_key) then
        select sluice._session(l.pid)
        into v_foreign
        from pg_locks as l
        join pg_stat_activity as a on a.pid = l.pid
        where l.locktype = 'advisory'
          and l.database = (select d.oid from pg_database as d where d.datname = current_database())
          and (l.classid::bigint << 32) | l.objid::bigint = v_key
          and l.objsubid = 1
          and l.granted
          and not has_function_privilege(a.usesysid, 'sluice.lead(integer)', 'execute');
        if not found then
            listen "sluice.leader";
            return false;
        end if;
        raise warning 'maintenance continues without its lock, which is held by %', v_foreign
            using hint = 'its role may not maintain; end the session with pg_terminate_backend';
    end if;
    unlisten "sluice.leader";
    perform
        set_config('idle_session_timeout', v_silence_max, false),
        -- A heartbeat need not survive a crash.
        set_config('synchronous_commit', 'off', false);
    if pg_notification_queue_usage() < v_usage_max then
        perform pg_notify('sluice.leader', '');
    end if;
    return true;
end;
$$;

comment on function sluice.lead(integer) is
    'Become or stay the leader that maintains the database; call it every second in a separate session, with the backend_pid that the client knows. False: another session leads, and this one is notified with each of its calls. Null: no leader is possible behind a pooler.';
revoke execute on function sluice.lead(integer) from public;
grant execute on function sluice.lead(integer) to sluice_admin;
