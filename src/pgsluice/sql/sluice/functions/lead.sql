/*
 * One session at a time keeps the database in order, so that the others need not.
 *
 * It only saves work: whatever a leader does may be done by any number at once. So the lock belongs to the session, and ends with it,
 * whatever ends it. A leader that the network has cut off would keep it for hours: the server ends its session when nothing
 * came from it for a while. Behind a pooler the lock would stay with a session that is lent to others; there the number that
 * the client was given is not that of the server's process.
 *
 * Those who stand by hear a sign of life with each call of the leader, so that they need not ask.
 *
 * Calls: nothing.
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
begin
    if backend_pid is distinct from pg_backend_pid() then
        return null;
    end if;
    if not pg_try_advisory_lock(hashtextextended('sluice.lead', 0)) then
        listen "sluice.leader";
        return false;
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
