/*
 * See sluice.explain_queue for the rows. A slot is late if it is due for more than ten seconds. The message or event of the
 * schedule is never returned.
 *
 * Calls: sluice.leader. Reads: sluice.schedule.
 */
create or replace function sluice.explain_schedule(name text)
returns table (section text, at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_late constant interval := '10 seconds';
    v_now constant timestamptz := clock_timestamp();
    v_may_read constant boolean := sluice._may_read('sluice.schedule'::regclass);
    s sluice.schedule;
    v_is_late boolean;
    v_exists boolean;
begin
    select x.* into s from sluice.schedule as x where x.name = explain_schedule.name;
    if not found then
        raise exception using
            errcode = 'RS001',
            table = coalesce(name, 'NULL'),
            message = format('schedule %L does not exist', name),
            hint = 'sluice.list_schedules() lists the schedules';
    end if;
    v_is_late := coalesce(s.due_at < v_now - v_late, false);
    v_exists := case s.target
        when 'log' then exists (select from pgq.queue as q where q.queue_name = s.queue_name)
        else to_regclass(format('pgmq.%I', pgmq.format_table_name(s.queue_name, 'q'))) is not null
    end;
    return query values (
        'state', s.next_slot, 'schedule',
        jsonb_build_object(
            'state', case
                when s.paused_at is not null then 'paused'
                when s.next_slot is null then 'ended'
                when s.error is not null then 'failing'
                when v_is_late then 'late'
                else 'waiting'
            end,
            'name', s.name, 'target', s.target, 'queue_name', s.queue_name, 'cron', s.cron, 'every', s.every, 'time_zone', s.time_zone
        )
    );
    return query
        select f.section, f.at, f.cause, f.detail
        from (
            values
                ('history', s.last_slot, 'last slot', '{}'::jsonb, s.last_slot is not null),
                ('history', s.last_fired_at, 'fired', '{}', s.last_fired_at is not null),
                ('reason', s.paused_at, 'schedule paused', '{}', s.paused_at is not null),
                ('reason', null, 'error', jsonb_build_object('error', case when v_may_read then s.error end), s.error is not null),
                ('reason', null, 'no target', '{}', not v_exists),
                ('reason', s.due_at, 'late', '{}', v_is_late),
                ('reason', null, 'maintenance', jsonb_build_object('session', sluice._session(
                    (select l.candidate from sluice.leader('maintenance'::text) as l where l.is_active)
                )), v_is_late),
                ('reason', s.due_at, 'not due', '{}', s.due_at > v_now),
                ('next', s.due_at, 'slot', '{}', s.due_at is not null),
                ('next', null, 'no slot', '{}', s.due_at is null)
        ) as f (section, at, cause, detail, applies)
        where f.applies;
end;
$$;

comment on function sluice.explain_schedule(text) is
    'Explain a schedule: its next and last slot, and why it did not fire: paused, failing, late; one row per fact, with the time it refers to, a word for it, and its values.';
revoke execute on function sluice.explain_schedule(text) from public;
grant execute on function sluice.explain_schedule(text) to sluice_admin, sluice_monitor, sluice_reader;
