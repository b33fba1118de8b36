-- After the functions: moves PgQ's ticks into segments and its subscriptions into the ledgers of positions.
do $$
declare
    v_log record;
begin
    for v_log in
        select q.queue_id, q.queue_ntables, q.queue_cur_table
        from pgq.queue as q
    loop
        execute format(
            'create table pgq.%I (primary key (tick_id), check (tick_queue = %s)) inherits (pgq.tick)',
            'tick_' || v_log.queue_id, v_log.queue_id
        );
        -- The parents are empty. They have indexes because they are read with their children.
        execute format(
            'create index %I on pgq.%I (ev_txid)', format('event_%s_txid_idx', v_log.queue_id), 'event_' || v_log.queue_id
        );
        for v_number in 0 .. v_log.queue_ntables - 1
        loop
            perform pgq._create_segment(v_log.queue_id, v_number); -- the event tables exist
        end loop;
        execute format(
            'insert into pgq.%I select t.* from only pgq.tick as t where t.tick_queue = %s',
            format('tick_%s_%s', v_log.queue_id, v_log.queue_cur_table), v_log.queue_id
        );
    end loop;
    truncate only pgq.tick;
end;
$$;

insert into pgq.subscriber (sub_id, sub_queue, sub_consumer)
select s.sub_id, s.sub_queue, s.sub_consumer
from pgq.adopted_subscription as s
order by s.sub_id;
insert into pgq.position_0
select r.sub_key, 1, s.sub_active,
    s.sub_last_tick, reached.tick_time, reached.tick_event_seq, reached.tick_snapshot,
    s.sub_batch, s.sub_next_tick, upto.tick_time, upto.tick_event_seq, upto.tick_snapshot
from pgq.adopted_subscription as s
join pgq.subscriber as r on r.sub_queue = s.sub_queue and r.sub_consumer = s.sub_consumer
left join pgq.tick as reached on reached.tick_queue = s.sub_queue and reached.tick_id = s.sub_last_tick
left join pgq.tick as upto on upto.tick_queue = s.sub_queue and upto.tick_id = s.sub_next_tick;
drop table pgq.adopted_subscription;

-- Event tables are read through their parent, by ranges of transaction ids.
alter table pgq.event_template alter column ev_time set default now();
do $$
declare
    v_table record;
begin
    for v_table in
        select c.relname, q.queue_event_seq
        from pg_catalog.pg_class as c
        join pgq.queue as q on c.relname ~ format('^event_%s_[0-9]+$', q.queue_id)
        where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r'
    loop
        -- The transaction gets its id before the event gets its number, also when a client copies into the table
        -- directly: the numbers that a tick has counted then belong to transactions that its snapshot knows.
        execute format(
            'alter table pgq.%I alter column ev_id set default
                nextval(case when pg_current_xact_id() is not null then %L::regclass end)',
            v_table.relname, v_table.queue_event_seq
        );
    end loop;
end;
$$;
