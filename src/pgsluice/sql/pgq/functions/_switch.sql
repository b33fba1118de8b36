-- The caller holds the row of the log and its ticking lock, in READ COMMITTED. Rows that are inserted into the old
-- segment later are still delivered: see pgq._segment_use.
--
-- The newest tick is moved to the new segment. New consumers start there, so it must not be truncated with the old one.
create or replace function pgq._switch(i_queue_id integer, i_empty integer[], i_in_steps boolean)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_current integer;
    v_next integer;
begin
    select q.queue_cur_table into v_current from pgq.queue as q where q.queue_id = i_queue_id;
    -- In ring order, as in PgQ.
    select e.number into v_next from unnest(i_empty) as e (number) order by e.number <= v_current, e.number limit 1;
    if v_next is null then
        begin
            execute format(
                'lock table only pgq.%I, only pgq.%I in share update exclusive mode nowait',
                format('event_%s', i_queue_id), format('tick_%s', i_queue_id)
            );
        exception
            when lock_not_available then
                return null;
        end;
        v_next := (select max(s.number) + 1 from pgq._segments(i_queue_id) as s (number));
        perform pgq._create_segment(i_queue_id, v_next);
        perform pgq._copy_grants(format('event_%s_%s', i_queue_id, v_current), format('event_%s_%s', i_queue_id, v_next));
        perform pgq._copy_grants(format('tick_%s_%s', i_queue_id, v_current), format('tick_%s_%s', i_queue_id, v_next));
    end if;
    begin
        execute format(
            'lock table only pgq.%I, only pgq.%I in row exclusive mode nowait',
            format('tick_%s_%s', i_queue_id, v_current), format('tick_%s_%s', i_queue_id, v_next)
        );
    exception
        when lock_not_available then
            return null;
    end;

    execute format(
        'with newest as (delete from only pgq.%I as t where t.tick_id = $1 returning t.*)
         insert into pgq.%I select n.* from newest as n',
        format('tick_%s_%s', i_queue_id, v_current), format('tick_%s_%s', i_queue_id, v_next)
    )
    using (pgq._last_tick(i_queue_id)).tick_id;
    update pgq.queue as q
    set queue_cur_table = v_next,
        queue_ntables = greatest(q.queue_ntables, v_next + 1),
        queue_switch_time = clock_timestamp(),
        queue_switch_step1 = pg_current_xact_id(),
        queue_switch_step2 = case when not i_in_steps then pg_current_xact_id() end
    where q.queue_id = i_queue_id;
    return v_next;
end;
$$;

comment on function pgq._switch(integer, integer[], boolean) is
    'Switch to an empty segment, or to a new one if none is empty; returns its number, null if a lock conflicts.';
revoke execute on function pgq._switch(integer, integer[], boolean) from public;
grant execute on function pgq._switch(integer, integer[], boolean) to pgq_admin, sluice_admin;
