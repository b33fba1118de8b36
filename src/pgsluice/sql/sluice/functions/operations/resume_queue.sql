-- The notifier has announced the waiting messages during the pause, and would not announce them again.
create or replace function sluice.resume_queue(queue_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_registered text := sluice._registered_name(queue_name);
begin
    delete from sluice.queue_pause as p where p.queue_name = v_registered;
    if not found then
        return false;
    end if;
    perform sluice._note_action('resume_queue'::text, v_registered, null::jsonb, null::bigint, null::text);
    perform sluice.notifier_wake(array[v_registered], false);
    return true;
end;
$$;

comment on function sluice.resume_queue(text) is
    'Resume a paused queue, and notify its listeners at the commit; false: it is not paused.';
revoke execute on function sluice.resume_queue(text) from public;
grant execute on function sluice.resume_queue(text) to sluice_admin;
