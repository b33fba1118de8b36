-- breaking: no
-- `+ 0`: the moves of a batch are looked up by the batch alone. As a join on the subscriber's key, the plan also read the
-- index entries of all moves of the consumer, up to 50,000, for each batch.
create or replace view pgq.open_batch as
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
