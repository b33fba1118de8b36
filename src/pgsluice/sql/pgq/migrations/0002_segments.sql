-- breaking: no
-- A segment of a log is an event table and a tick table, which holds the ticks taken while that event table was
-- current. Both are truncated together. So neither has dead rows, even while a session holds a snapshot.
--
-- The ticks of one log are in children of pgq.tick_<id>, those of all logs in children of pgq.tick, which is empty
-- itself.
do $$
declare
    v_log record;
    v_segment text;
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
            v_segment := format('tick_%s_%s', v_log.queue_id, v_number);
            execute format(
                'create table pgq.%I (primary key (tick_id)) inherits (pgq.%I) with (autovacuum_enabled = off)',
                v_segment, 'tick_' || v_log.queue_id
            );
            execute format('grant select on pgq.%I to public', v_segment);
        end loop;
        execute format('grant select on pgq.%I to public', 'tick_' || v_log.queue_id);
        execute format(
            'insert into pgq.%I select t.* from only pgq.tick as t where t.tick_queue = %s',
            format('tick_%s_%s', v_log.queue_id, v_log.queue_cur_table), v_log.queue_id
        );
    end loop;
    truncate only pgq.tick;
end;
$$;

-- The consumers of each log. A session locks this row before it moves the consumer, and the row hardly ever changes.
create table pgq.subscriber (
    sub_key integer generated always as identity primary key,
    sub_id integer not null,
    sub_queue integer not null references pgq.queue (queue_id),
    sub_consumer integer not null references pgq.consumer (co_id),
    sub_ledger integer not null default 0,
    constraint subscriber_queue_consumer_key unique (sub_queue, sub_consumer)
);
comment on table pgq.subscriber is 'One row per consumer of a log; its position is in the ledgers pgq.position_0 and pgq.position_1.';
comment on column pgq.subscriber.sub_id is 'Owner id of the events that are retried for it. Cooperative consumers share it.';
comment on column pgq.subscriber.sub_ledger is 'The ledger to which its moves are written: 0 or 1.';

-- Positions of consumers, as a ledger: each move is a new row, and the newest counts. An update in place would leave a
-- dead row per batch, which every reader has to skip while a session holds a snapshot. There are two tables, so that
-- one can be truncated when all consumers have switched to the other. A move has the snapshots of its ticks: reading a
-- batch needs no tick.
create table pgq.position_0 (
    pos_subscriber integer not null,
    pos_move bigint not null,
    pos_active timestamptz not null,
    pos_last_tick bigint,
    pos_last_time timestamptz,
    pos_last_seq bigint,
    pos_last_snapshot pg_snapshot,
    pos_batch bigint,
    pos_next_tick bigint,
    pos_next_time timestamptz,
    pos_next_seq bigint,
    pos_next_snapshot pg_snapshot,
    pos_lost text,
    primary key (pos_subscriber, pos_move)
);
comment on table pgq.position_0 is 'A ledger of positions: everything up to pos_last_tick is finished; pos_batch is open up to pos_next_tick.';
comment on column pgq.position_0.pos_lost is 'Reason for which this consumer''s position was given up; null if it was not.';
create index position_0_batch_idx on pgq.position_0 (pos_batch) where pos_batch is not null;
create table pgq.position_1 (like pgq.position_0 including all);
alter index pgq.position_1_pos_batch_idx rename to position_1_batch_idx;

insert into pgq.subscriber (sub_id, sub_queue, sub_consumer)
select s.sub_id, s.sub_queue, s.sub_consumer
from pgq.subscription as s
order by s.sub_id;
insert into pgq.position_0
select r.sub_key, 1, s.sub_active,
    s.sub_last_tick, reached.tick_time, reached.tick_event_seq, reached.tick_snapshot,
    s.sub_batch, s.sub_next_tick, upto.tick_time, upto.tick_event_seq, upto.tick_snapshot
from pgq.subscription as s
join pgq.subscriber as r on r.sub_queue = s.sub_queue and r.sub_consumer = s.sub_consumer
left join pgq.tick as reached on reached.tick_queue = s.sub_queue and reached.tick_id = s.sub_last_tick
left join pgq.tick as upto on upto.tick_queue = s.sub_queue and upto.tick_id = s.sub_next_tick;
alter sequence pgq.subscription_sub_id_seq owned by pgq.subscriber.sub_id;
drop table pgq.subscription;

-- Every subscriber with its newest move.
create view pgq.standing as
select s.sub_key, s.sub_id, s.sub_queue, s.sub_consumer, s.sub_ledger, p.*
from pgq.subscriber as s
left join lateral (
    (
        select p0.* from pgq.position_0 as p0
        where s.sub_ledger = 0 and p0.pos_subscriber = s.sub_key
        order by p0.pos_move desc limit 1
    )
    union all
    (
        select p1.* from pgq.position_1 as p1
        where s.sub_ledger = 1 and p1.pos_subscriber = s.sub_key
        order by p1.pos_move desc limit 1
    )
) as p on true;
comment on view pgq.standing is 'Every subscriber with its newest move. Without a move: a ledger was truncated after this snapshot was taken.';

-- A table in PgQ; updates go through a trigger.
create view pgq.subscription as
select s.sub_id, s.sub_queue, s.sub_consumer,
    s.pos_last_tick as sub_last_tick, s.pos_active as sub_active, s.pos_batch as sub_batch, s.pos_next_tick as sub_next_tick
from pgq.standing as s;
comment on view pgq.subscription is
    'A consumer''s position in a log: it has finished everything up to sub_last_tick; sub_batch is open up to sub_next_tick.';

grant select on pgq.subscriber, pgq.standing, pgq.subscription to public;
grant update on pgq.subscription to pgq_admin, sluice_admin;
grant select on pgq.position_0, pgq.position_1 to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

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
grant select on pgq.event_template to pgq_admin, pgq_reader;
grant update on pgq.queue to pgq_admin;
