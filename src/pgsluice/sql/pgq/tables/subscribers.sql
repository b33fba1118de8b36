create table pgq.consumer (
    co_id serial primary key,
    co_name text not null unique
);
comment on table pgq.consumer is 'One row per consumer name.';

-- The consumers of each log. A session locks this row before it moves the consumer, and the row hardly ever changes.
create sequence pgq.subscription_sub_id_seq as integer;
create table pgq.subscriber (
    sub_key integer generated always as identity primary key,
    sub_id integer not null,
    sub_queue integer not null references pgq.queue (queue_id),
    sub_consumer integer not null references pgq.consumer (co_id),
    sub_ledger integer not null default 0,
    sub_main integer references pgq.subscriber (sub_key) on delete cascade,
    sub_is_group boolean not null default false,
    constraint subscriber_queue_consumer_key unique (sub_queue, sub_consumer)
);
alter sequence pgq.subscription_sub_id_seq owned by pgq.subscriber.sub_id;
comment on table pgq.subscriber is 'One row per consumer of a log; its position is in the ledgers pgq.position_0 and pgq.position_1.';
comment on column pgq.subscriber.sub_id is 'Owner id of the events that are retried for it. Cooperative consumers share it.';
comment on column pgq.subscriber.sub_ledger is 'The ledger to which its moves are written: 0 or 1.';
comment on column pgq.subscriber.sub_main is 'The main consumer of its group; null: it is no subconsumer.';
comment on column pgq.subscriber.sub_is_group is 'True for a share group, whose position follows from its claims: see sluice.claim.';

create sequence pgq.batch_id_seq;

-- Positions of consumers, as a ledger: each move is a new row, and the newest counts. An update in place would leave a
-- dead row per batch, which every reader has to skip while a session holds a snapshot. There are two tables, so that
-- one can be truncated when all consumers have switched to the other. A move has the snapshots of its ticks: reading a
-- batch needs no tick.
--
-- Rows of a ledger are appended and truncated: there is nothing to vacuum. Statistics of a ledger that has just been
-- truncated are worse than none: they lead to a cached plan with a sequential scan, which is kept while the ledger
-- grows.
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
)
with (autovacuum_enabled = off);
comment on table pgq.position_0 is 'A ledger of positions: everything up to pos_last_tick is finished; pos_batch is open up to pos_next_tick.';
comment on column pgq.position_0.pos_lost is 'Reason for which this consumer''s position was given up; null if it was not.';
create index position_0_batch_idx on pgq.position_0 (pos_batch) where pos_batch is not null;
create table pgq.position_1 (like pgq.position_0 including all) with (autovacuum_enabled = off);
alter index pgq.position_1_pos_batch_idx rename to position_1_batch_idx;

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

-- `+ 0`: the moves of a batch are looked up by the batch alone. As a join on the subscriber's key, the plan also read the
-- index entries of all moves of the consumer, up to 50,000, for each batch.
create view pgq.open_batch as
select p.pos_batch as batch_id, s.sub_key, s.sub_id, s.sub_queue, s.sub_consumer,
    p.pos_last_tick, p.pos_last_snapshot, p.pos_next_tick, p.pos_next_snapshot
from pgq.position_0 as p
join pgq.subscriber as s on s.sub_key = p.pos_subscriber + 0 and s.sub_ledger = 0
where p.pos_batch is not null
  and not exists (
      select from pgq.position_0 as newer where newer.pos_subscriber = p.pos_subscriber and newer.pos_move > p.pos_move
  )
union all
select p.pos_batch, s.sub_key, s.sub_id, s.sub_queue, s.sub_consumer,
    p.pos_last_tick, p.pos_last_snapshot, p.pos_next_tick, p.pos_next_snapshot
from pgq.position_1 as p
join pgq.subscriber as s on s.sub_key = p.pos_subscriber + 0 and s.sub_ledger = 1
where p.pos_batch is not null
  and not exists (
      select from pgq.position_1 as newer where newer.pos_subscriber = p.pos_subscriber and newer.pos_move > p.pos_move
  );
comment on view pgq.open_batch is 'Every open batch with the snapshots that bound it; filter by batch_id.';

-- Positions are public, as in PgQ. The trigger of pgq.subscription refuses an insert, and its hint names the functions to call.
grant select on pgq.consumer, pgq.subscriber, pgq.standing, pgq.subscription to public;
grant insert, update, delete on pgq.subscription to pgq_admin, sluice_admin;
grant select on pgq.position_0, pgq.position_1, pgq.open_batch to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
