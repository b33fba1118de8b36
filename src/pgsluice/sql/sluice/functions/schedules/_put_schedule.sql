/*
 * Writes a schedule, and returns if that changed anything: every process that declares it may call this at startup.
 *
 * A paused schedule stays paused, unless it was paused because its app did not declare it any more. Its position is kept unless its times change: then it continues with the first slot from
 * now on. An omitted start keeps the old one.
 *
 * Calls: sluice._require_schedule_settings, sluice._next_slot, sluice._slot_due_at. Writes: sluice.schedule.
 */
create or replace function sluice._put_schedule(i_new sluice.schedule)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_old sluice.schedule;
    v_now timestamptz;
    v_has_months boolean := coalesce(date_trunc('month', i_new.every) <> '0', false);
begin
    if i_new.name !~ E'\\S' then
        raise exception using
            errcode = '22023',
            message = 'schedule name is empty',
            hint = 'pass a name for the schedule';
    end if;
    -- One at a time per name, also without a row to lock.
    perform sluice._lock_name(format('sluice.schedule.%s', i_new.name));
    select s.* into v_old from sluice.schedule as s where s.name = i_new.name for update;
    v_now := clock_timestamp();
    if i_new.target = 'queue' then
        i_new.queue_name := sluice._registered_name(i_new.queue_name);
    else
        perform pgq._require_log(i_new.queue_name);
    end if;
    if not v_has_months then
        -- In hours, because a local day may have 23 or 25.
        i_new.every := make_interval(secs => extract(epoch from i_new.every)::double precision);
    end if;
    i_new.starts_at := coalesce(i_new.starts_at, v_old.starts_at, v_now + coalesce(i_new.every, '0'));
    if v_old.undeclared_at is null or i_new.declared_by is distinct from v_old.declared_by then
        i_new.paused_at := v_old.paused_at;
        i_new.undeclared_at := v_old.undeclared_at;
    end if;
    i_new.next_slot := v_old.next_slot;
    i_new.due_at := v_old.due_at;
    i_new.last_slot := v_old.last_slot;
    i_new.last_fired_at := v_old.last_fired_at;
    i_new.error := v_old.error;
    i_new.looked_at := v_old.looked_at;
    -- A month is equal to thirty days, and is refused below.
    if i_new is not distinct from v_old and not v_has_months then
        return false;
    end if;

    perform sluice._require_schedule_settings(i_new);
    if (i_new.cron, i_new.every, i_new.time_zone, i_new.starts_at, i_new.ends_at)
        is distinct from (v_old.cron, v_old.every, v_old.time_zone, v_old.starts_at, v_old.ends_at)
        or i_new.paused_at is distinct from v_old.paused_at
    then
        i_new.next_slot := case when i_new.paused_at is null then sluice._next_slot(i_new, v_now) end;
    end if;
    i_new.due_at := sluice._slot_due_at(i_new, i_new.next_slot);
    i_new.looked_at := v_now;
    i_new.error := null;
    if v_old.name is null then
        insert into sluice.schedule select i_new.*;
    else
        update sluice.schedule as s
        set target = i_new.target, queue_name = i_new.queue_name,
            message = i_new.message, headers = i_new.headers, event = i_new.event,
            cron = i_new.cron, every = i_new.every, time_zone = i_new.time_zone,
            catch_up = i_new.catch_up, catch_up_within = i_new.catch_up_within, jitter = i_new.jitter,
            starts_at = i_new.starts_at, ends_at = i_new.ends_at, declared_by = i_new.declared_by,
            paused_at = i_new.paused_at, undeclared_at = i_new.undeclared_at,
            next_slot = i_new.next_slot, due_at = i_new.due_at, looked_at = i_new.looked_at, error = i_new.error
        where s.name = i_new.name;
    end if;
    return true;
end;
$$;

comment on function sluice._put_schedule(sluice.schedule) is
    'Write a new or changed schedule; false: it exists unchanged.';
revoke execute on function sluice._put_schedule(sluice.schedule) from public;
grant execute on function sluice._put_schedule(sluice.schedule) to sluice_admin;
