-- Two independent steps. Reclaim: segments that no consumer needs are truncated. Switch: after the rotation
-- period another segment becomes the current one, even if no old one could be truncated.
create or replace function pgq._rotate(
    i_queue_id integer, i_in_steps boolean, out segment integer, out action text, out reason text
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Up to this number of kept segments the configured period applies. Each further one doubles it, so that a consumer
    -- that is absent for a year does not leave thousands of tables, which every batch reads.
    v_kept_max constant integer := 6;
    v_queue record;
    v_readable integer[] := '{}';
    v_empty integer[] := '{}';
    v_kept integer := 0;
    v_is_behind boolean := false;
    v_span record;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot rotate an event log in a %s transaction', current_setting('transaction_isolation')),
            detail = 'Its snapshot is from the start of the transaction; events and consumers may have moved since.',
            hint = 'rotate in a READ COMMITTED transaction';
    end if;
    select q.* into v_queue from pgq.queue as q where q.queue_id = i_queue_id for no key update skip locked;
    if not found then
        return query select null::integer, 'kept', 'the log is locked by a registration, rotation or change';
        return;
    end if;
    if pgq._is_restored(i_queue_id) then
        return query select null::integer, 'kept', 'restored from a dump and not repaired; call sluice.after_restore()';
        return;
    end if;
    if v_queue.queue_switch_step2 is null and v_queue.queue_switch_step1 = pg_current_xact_id_if_assigned() then
        return; -- the second step is for another transaction
    end if;
    -- No tick is taken while the newest one is moved.
    if not pgq._lock_ticks(i_queue_id, false) then
        return query select null::integer, 'kept', 'the log is being ticked';
        return;
    end if;
    if v_queue.queue_switch_step2 is null then
        perform pgq._finish_switch(i_queue_id);
    end if;
    -- A session that caches numbers gives lower ones to later events: changes of one row would be delivered out of
    -- order.
    return query
        select null::integer, 'misnumbered',
            format('sequence %s caches %s numbers for each session; alter sequence %s cache 1', s.seqrelid::regclass, s.seqcache, s.seqrelid::regclass)
        from pg_sequence as s
        where s.seqrelid in (v_queue.queue_event_seq::regclass, v_queue.queue_tick_seq::regclass)
          and s.seqcache > 1;

    for segment in
        select s.number from pgq._segments(i_queue_id) as s (number) where s.number <> v_queue.queue_cur_table
    loop
        if pgq._lock_segment(i_queue_id, segment, 'access share', 0) then
            v_readable := v_readable || segment;
        else
            v_kept := v_kept + 1;
            v_is_behind := true;
            action := 'kept';
            reason := coalesce(pgq._locked_by(i_queue_id, segment), 'locked');
            return next;
        end if;
    end loop;
    return query select null::integer, 'given up', g.reason from pgq._give_up(i_queue_id, v_readable) as g (reason);

    -- The oldest first. A tick promises all events after it, so a segment with ticks may not stay when a later one is
    -- truncated. Late rows in a segment without ticks do not block later segments.
    for v_span in
        select r.number, span.first_tick, span.last_tick, span.is_empty
        from unnest(v_readable) as r (number)
        cross join lateral pgq._segment_span(i_queue_id, r.number) as span
        order by span.first_tick nulls first, r.number
    loop
        segment := v_span.number;
        if v_span.is_empty then
            v_empty := v_empty || segment;
            continue;
        end if;
        if v_is_behind and v_span.last_tick is not null then
            reason := 'an older segment is kept';
        else
            reason := pgq._reclaim(i_queue_id, segment);
        end if;
        if reason is null then
            action := 'reclaimed';
            v_empty := v_empty || segment;
        else
            action := 'kept';
            v_kept := v_kept + 1;
            v_is_behind := v_is_behind or v_span.last_tick is not null;
        end if;
        return next;
    end loop;

    -- A switch time in the future is from before the clock was set back, so its age is unknown: treat it as old enough.
    if v_queue.queue_switch_time > clock_timestamp()
        or clock_timestamp() - v_queue.queue_switch_time
        > v_queue.queue_rotation_period * power(2, least(greatest(v_kept - v_kept_max, 0), 20))
    then
        segment := pgq._switch(i_queue_id, v_empty, i_in_steps);
        if segment is null then
            segment := v_queue.queue_cur_table;
            action := 'kept';
            reason := coalesce(pgq._locked_by(i_queue_id, segment), 'locked');
        else
            action := 'switched';
            reason := null;
        end if;
        return next;
    end if;
end;
$$;

comment on function pgq._rotate(integer, boolean) is
    'Truncate the segments of a log that no consumer needs, and switch to another one after the rotation period; returns each action with its reason.';
revoke execute on function pgq._rotate(integer, boolean) from public;
grant execute on function pgq._rotate(integer, boolean) to pgq_admin, sluice_admin;
