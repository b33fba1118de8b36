/*
 * See sluice.explain_message for the columns. A slot is late if it is due for more than ten seconds. The message or event of
 * the schedule is never returned.
 *
 * Calls: sluice._explain_leader. Reads: sluice.schedule.
 */
create or replace function sluice.explain_schedule(name text)
returns table (ordinal integer, section text, at timestamptz, fact text, detail jsonb)
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
    v_target text;
begin
    select x.* into s from sluice.schedule as x where x.name = explain_schedule.name;
    if not found then
        raise exception using
            errcode = 'RS001',
            message = format('schedule %L does not exist', name),
            hint = 'sluice.list_schedules() lists the schedules';
    end if;
    v_is_late := coalesce(s.due_at < v_now - v_late, false);
    v_target := format('%s %s', s.target, s.queue_name);
    return query
        select (row_number() over (order by part.number))::integer, part.section,
            case when isfinite(part.at) then part.at end, part.fact, jsonb_strip_nulls(part.detail)
        from (
            select 1 as number, 'state' as section, s.next_slot as at,
                case
                    when s.paused_at is not null then format('Schedule %s for %s is paused', s.name, v_target)
                    when s.next_slot is null then format('Schedule %s for %s has no further slot', s.name, v_target)
                    else format('Schedule %s for %s has its next slot', s.name, v_target)
                end as fact,
                jsonb_build_object(
                    'state', case
                        when s.paused_at is not null then 'paused'
                        when s.next_slot is null then 'ended'
                        when s.error is not null then 'failing'
                        when v_is_late then 'late'
                        else 'waiting'
                    end,
                    'name', s.name, 'target', s.target, 'queue_name', s.queue_name, 'cron', s.cron, 'every', s.every, 'time_zone', s.time_zone
                ) as detail
            union all
            select 2, 'history', s.last_slot, 'Its last slot that was sent', '{}' where s.last_slot is not null
            union all
            select 3, 'history', s.last_fired_at, 'It was last sent', '{}' where s.last_fired_at is not null
            union all
            select 4, 'reason', s.paused_at, 'It was paused',
                jsonb_build_object(
                    'cause', 'paused', 'sql', format('select sluice.resume_schedule(%L)', s.name),
                    'command', format('pgsluice schedule resume %s', sluice._shell_word(s.name))
                )
            where s.paused_at is not null
            union all
            select 5, 'reason', null, concat_ws(': ', 'Its last attempt failed', case when v_may_read then s.error end),
                jsonb_build_object('cause', 'error', 'error', case when v_may_read then s.error end)
            where s.error is not null
            union all
            select 6, 'reason', null, format('The %s does not exist', v_target), '{"cause": "no target"}'
            where case s.target
                    when 'log' then not exists (select from pgq.queue as q where q.queue_name = s.queue_name)
                    else to_regclass(format('pgmq.%I', pgmq.format_table_name(s.queue_name, 'q'))) is null
                end
            union all
            select 7, 'reason', s.due_at, 'No process fired it when it was due', '{"cause": "late"}' where v_is_late
            union all
            select 8, 'reason', l.at, l.fact, l.detail from sluice._explain_leader() as l where v_is_late
            union all
            select 9, 'reason', s.due_at, 'It is not due yet', '{"cause": "not due"}' where s.due_at > v_now
            union all
            select 10, 'next', s.due_at,
                case when s.error is not null then 'The next attempt sends its slot' else 'It sends its next slot' end, '{}'
            where s.due_at is not null
            union all
            select 11, 'next', null, 'Nothing, until it is resumed or changed', '{}' where s.due_at is null
        ) as part
        order by 1;
end;
$$;

comment on function sluice.explain_schedule(text) is
    'Explain a schedule: its next and last slot, and why it did not fire: paused, failing, late; one row per fact, with the time it refers to.';
revoke execute on function sluice.explain_schedule(text) from public;
grant execute on function sluice.explain_schedule(text) to sluice_admin, sluice_reader, sluice_monitor;
