/*
 * One session at a time keeps the database in order, so that the others need not.
 *
 * It only saves work: whatever a leader does may be done by any number at once. So the lock belongs to the session, and ends with it,
 * whatever ends it. A leader that the network has cut off would keep it for hours: the server ends its session when nothing
 * came from it for a while. Behind a pooler the lock would stay with a session that is lent to others; there the number that
 * the client was given is not that of the server's process.
 *
 * Any role that can connect may take an advisory lock, this one too. A session whose role may not lead holds it for nothing: then this
 * one leads all the same, with a warning that names the other.
 *
 * Those who stand by hear a sign of life with each call of the leader, so that they need not ask.
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
        raise warning 'maintenance goes on without its lock, which is held by %', v_foreign
            using hint = 'its role may not maintain; end the session with pg_terminate_backend';
    end if;
    unlisten "sluice.leader";
    perform
        set_config('idle_session_timeout', v_silence_max, false),
        -- A sign of life need not survive a crash.
        set_config('synchronous_commit', 'off', false);
    if pg_notification_queue_usage() < v_usage_max then
        perform pg_notify('sluice.leader', '');
    end if;
    return true;
end;
$$;

comment on function sluice.lead(integer) is
    'Become, or go on being, the session that keeps the database in order; to be called every second by a session of its own, with its backend_pid as the client knows it. False: another one leads, and this one is notified with each of its calls. Null: there is a pooler between, and nobody can lead.';
revoke execute on function sluice.lead(integer) from public;
grant execute on function sluice.lead(integer) to sluice_admin;
