-- A claim that began before the commit still returns messages.
create or replace function sluice.pause_queue(queue_name text, reason text default null)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_registered text := sluice._registered_name(queue_name);
begin
    insert into sluice.queue_pause (queue_name, paused_at, paused_by, reason)
    values (
        v_registered, clock_timestamp(),
        format('role %s, application %L', sluice._caller(), current_setting('application_name')),
        pause_queue.reason
    )
    on conflict on constraint queue_pause_pkey do nothing;
    if found then
        perform sluice._note_action('pause_queue'::text, v_registered, null::jsonb, null::bigint, pause_queue.reason);
        return true;
    end if;
    update sluice.queue_pause as p
    set reason = pause_queue.reason
    where p.queue_name = v_registered and p.reason is distinct from pause_queue.reason and pause_queue.reason is not null;
    if found then
        perform sluice._note_action('pause_queue'::text, v_registered, null::jsonb, null::bigint, pause_queue.reason);
    end if;
    return false;
end;
$$;

comment on function sluice.pause_queue(text, text) is
    'Pause a queue until sluice.resume_queue: workers claim no message of it, and finish those that they have claimed; pgmq.read is not affected. False: it is paused already; a reason replaces the earlier one.';
revoke execute on function sluice.pause_queue(text, text) from public;
grant execute on function sluice.pause_queue(text, text) to sluice_admin;
