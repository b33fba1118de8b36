/*
 * Fires the due slots of one schedule, at most ten, so that one that catches up does not delay the others.
 *
 * The caller holds its row. A slot that has a row already was fired before the server's clock was set back: it is skipped,
 * like a slot whose row may have been removed. An error of this schedule alone is rolled back and the slot retried later;
 * other errors are the server's, and end the call.
 *
 * Calls: sluice._slot_to_fire, sluice._send_scheduled. Writes: sluice.schedule, sluice.schedule_slot, the target.
 */
create or replace function sluice._fire_schedule(i_schedule sluice.schedule, i_now timestamptz)
returns table (slot timestamptz, msg_id bigint, error text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_slots_max constant integer := 10;
    -- Without catch-up, a slot later than this is missed. Schedulers may run only once a minute.
    v_late_max constant interval := '5 minutes';
    v_pause interval;
    v_next timestamptz := i_schedule.next_slot;
    v_due_at timestamptz;
begin
    for v_turn in 1 .. v_slots_max loop
        exit when v_next is null or sluice._slot_due_at(i_schedule, v_next) > i_now;
        slot := v_next;
        v_next := sluice._next_slot(i_schedule, slot);
        if v_next <= i_now - i_schedule.jitter then
            -- Further slots were missed.
            slot := sluice._slot_to_fire(i_schedule, slot, i_now);
            v_next := sluice._next_slot(i_schedule, slot);
        end if;
        v_due_at := sluice._slot_due_at(i_schedule, slot);
        begin
            if not (i_schedule.catch_up = 'none' and v_due_at < i_now - v_late_max)
                and not exists (
                    select
                    from sluice.schedule_slot as fired
                    where fired.name = i_schedule.name and fired.slot >= _fire_schedule.slot
                      and (fired.slot = _fire_schedule.slot or fired.earlier_removed)
                )
            then
                msg_id := sluice._send_scheduled(i_schedule, slot);
                insert into sluice.schedule_slot (name, slot, fired_at, msg_id)
                values (i_schedule.name, _fire_schedule.slot, i_now, _fire_schedule.msg_id);
                i_schedule.last_slot := slot;
                i_schedule.last_fired_at := i_now;
                return next;
            end if;
        exception
            -- Whole classes: errors of a trigger of the queue or a rule of its table are unpredictable.
            when syntax_error_or_access_rule_violation or integrity_constraint_violation or data_exception
                or object_not_in_prerequisite_state or program_limit_exceeded or plpgsql_error or sqlstate 'PQ000'
            then
                msg_id := null;
                error := sqlerrm;
                -- A lock is released soon, for example that of a new partition.
                v_pause := case sqlstate when '55P03' then interval '1 second' else interval '10 seconds' end;
                return next;
                update sluice.schedule as s
                set next_slot = _fire_schedule.slot, due_at = i_now + v_pause, looked_at = i_now, error = _fire_schedule.error,
                    last_slot = i_schedule.last_slot, last_fired_at = i_schedule.last_fired_at
                where s.name = i_schedule.name;
                return;
        end;
    end loop;
    update sluice.schedule as s
    set next_slot = v_next, due_at = sluice._slot_due_at(i_schedule, v_next), looked_at = i_now, error = null,
        last_slot = i_schedule.last_slot, last_fired_at = i_schedule.last_fired_at
    where s.name = i_schedule.name;
end;
$$;

comment on function sluice._fire_schedule(sluice.schedule, timestamptz) is
    'Fire the due slots of a schedule, at most ten; returns a row per slot fired or failed.';
revoke execute on function sluice._fire_schedule(sluice.schedule, timestamptz) from public;
grant execute on function sluice._fire_schedule(sluice.schedule, timestamptz) to sluice_admin;
