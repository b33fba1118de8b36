-- For `pgsluice doctor`, `status` and `schema verify`: rows of ours that were changed by hand. log_problems.sql looks at the
-- catalog. Each statement that corrects a problem deletes nothing; drop_group is named together with what it drops.
create or replace function sluice.list_log_problems(out log_name text, out problem text, out hint text)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_last pgq.tick;
    v_oldest bigint;
    v_tick_number bigint;
    v_event_number bigint;
    v_reached record;
    v_lost record;
    v_batch constant bigint := (select greatest((select max(p.pos_batch) from pgq.position_0 as p), (select max(p.pos_batch) from pgq.position_1 as p)));
begin
    for v_queue in select q.* from pgq.queue as q order by q.queue_name
    loop
        begin
            log_name := v_queue.queue_name;
            -- Prevents emptying the ledgers: otherwise the next statements could see neither the old rows nor their copy.
            lock table pgq.position_0, pgq.position_1, sluice.claim in access share mode;
            -- The sequences are read last: they only grow.
            select max(greatest(s.pos_last_tick, s.pos_next_tick)) as tick, max(greatest(s.pos_last_seq, s.pos_next_seq)) as event
            into v_reached
            from pgq.standing as s
            where s.sub_queue = v_queue.queue_id;
            v_last := pgq._last_tick(v_queue.queue_id);
            execute format('select min(t.tick_id) from pgq.%I as t', format('tick_%s', v_queue.queue_id)) into v_oldest;
            v_tick_number := coalesce(pg_sequence_last_value(format('pgq.event_%s_tick_seq', v_queue.queue_id)::regclass), 0);
            v_event_number := pgq._event_seq(v_queue.queue_id);
            if v_last.tick_id is null then
                problem := 'it has no tick: no consumer can be registered, and none can be moved back';
                hint := format('select pgq.ticker(%L)  -- consumers continue where they are', v_queue.queue_name);
                return next;
            end if;
            if v_tick_number < greatest(v_last.tick_id, v_reached.tick) then
                problem := format(
                    'its next tick gets number %s, and there are ticks up to %s: consumers do not see it', v_tick_number + 1,
                    greatest(v_last.tick_id, v_reached.tick)
                );
                hint := format(
                    'select setval(%L, %s)', format('pgq.event_%s_tick_seq', v_queue.queue_id), greatest(v_last.tick_id, v_reached.tick)
                );
                return next;
            end if;
            -- PgQ's ticks have number 1 before the first event, too.
            if greatest(v_event_number, 1) < greatest(v_last.tick_event_seq, v_reached.event) then
                problem := format(
                    'its next event gets number %s, and there are events up to %s: ticks come late, and share groups may skip events',
                    v_event_number + 1, greatest(v_last.tick_event_seq, v_reached.event)
                );
                hint := format(
                    'select setval(%L, %s)', format('pgq.event_%s_id_seq', v_queue.queue_id),
                    greatest(v_last.tick_event_seq, v_reached.event)
                );
                return next;
            end if;
            for v_lost in
                select c.co_name, main.co_name as main_name
                from pgq.subscriber as s
                join pgq.consumer as c on c.co_id = s.sub_consumer
                left join pgq.subscriber as m on m.sub_key = s.sub_main
                left join pgq.consumer as main on main.co_id = m.sub_consumer
                where s.sub_queue = v_queue.queue_id
                  and not s.sub_is_group -- the next claim writes it again
                  and (pgq._position(s.sub_key, s.sub_ledger)).pos_move is null
                order by c.co_name
            loop
                problem := format('consumer %s has lost its position: its rows in pgq.position_0 and pgq.position_1 are missing', v_lost.co_name);
                hint := case
                    when v_lost.main_name is not null then format(
                        'select pgq_coop.unregister_subconsumer(%L, %L, %L, 1)  -- it is registered again by its next batch',
                        v_queue.queue_name, v_lost.main_name, substr(v_lost.co_name, length(v_lost.main_name) + 2)
                    )
                    else format(
                        'select pgq.register_consumer_at(%L, %L, %s)  -- the oldest tick that is kept: later events are redelivered',
                        v_queue.queue_name, v_lost.co_name, coalesce(v_oldest, 1)
                    )
                end;
                return next;
            end loop;
            for v_lost in
                select g.group_name, s.pos_last_tick,
                    jsonb_strip_nulls(to_jsonb(g))
                        - array['group_id', 'queue_id', 'log_name', 'group_name', 'created_at', 'sub_key', 'owner', 'lost', 'types', 'has_others']
                        as options
                from sluice.share_group as g
                left join pgq.standing as s on s.sub_key = g.sub_key
                where g.queue_id = v_queue.queue_id
                  and (sluice._last_claim(g.group_id)).claim_id is null
                order by g.group_name
            loop
                problem := format('share group %s has lost its claims, and with them its retries', v_lost.group_name);
                hint := format(
                    'select sluice.drop_group(%1$L, %2$L); select sluice.create_group(%1$L, %2$L, %3$L)  -- where it stopped: events that '
                    'were claimed there are redelivered', v_queue.queue_name, v_lost.group_name,
                    v_lost.options || jsonb_build_object('start', jsonb_build_object(
                        'tick', coalesce((pgq._find_tick(v_queue.queue_id, v_lost.pos_last_tick, false)).tick_id, v_oldest, 1)
                    ))
                );
                return next;
            end loop;
            -- The rollback releases the locks: one transaction could not hold those of thousands of logs.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
            -- Of a log whose tables or functions are missing: log_problems.sql names them.
            when undefined_table or undefined_function or undefined_column then
                null;
        end;
    end loop;
    if to_regclass('pgq.batch_id_seq') is not null
        and coalesce(pg_sequence_last_value(to_regclass('pgq.batch_id_seq')), 0) < v_batch
    then
        log_name := null;
        problem := format('the next batch of any log gets the number of an earlier one: there are batches up to %s', v_batch);
        hint := format('select setval(''pgq.batch_id_seq'', %s)', v_batch);
        return next;
    end if;
end;
$$;

comment on function sluice.list_log_problems() is
    'List event logs whose ticks, numbers, positions or claims were changed by hand, each with its way out; a null name: all.';
revoke execute on function sluice.list_log_problems() from public;
grant execute on function sluice.list_log_problems() to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
