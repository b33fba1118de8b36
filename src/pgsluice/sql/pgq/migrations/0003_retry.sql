-- breaking: no
-- Open batches and the snapshots that bound them, from each subscriber's newest move. A batch is found by the ledgers'
-- own index, whatever the number of subscribers.
create view pgq.open_batch as
select p.pos_batch as batch_id, s.sub_key, s.sub_id, s.sub_queue, s.sub_consumer,
    p.pos_last_tick, p.pos_last_snapshot, p.pos_next_tick, p.pos_next_snapshot
from pgq.position_0 as p
join pgq.subscriber as s on s.sub_key = p.pos_subscriber and s.sub_ledger = 0
where p.pos_batch is not null
  and not exists (
      select from pgq.position_0 as newer where newer.pos_subscriber = p.pos_subscriber and newer.pos_move > p.pos_move
  )
union all
select p.pos_batch, s.sub_key, s.sub_id, s.sub_queue, s.sub_consumer,
    p.pos_last_tick, p.pos_last_snapshot, p.pos_next_tick, p.pos_next_snapshot
from pgq.position_1 as p
join pgq.subscriber as s on s.sub_key = p.pos_subscriber and s.sub_ledger = 1
where p.pos_batch is not null
  and not exists (
      select from pgq.position_1 as newer where newer.pos_subscriber = p.pos_subscriber and newer.pos_move > p.pos_move
  );
comment on view pgq.open_batch is 'Every open batch with the snapshots that bound it; filter by batch_id.';
grant select on pgq.open_batch to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

-- Events that consumers retry. Rows are only appended: moving an event into its log does not touch its row, and rows
-- are removed in bulk by TRUNCATE. So there are no dead rows, even while a session holds a snapshot. Two tables have
-- one parent: new rows go to one; when it has grown, the rows still needed are copied to the other.
create table pgq.retry_entry (
    entry_txid xid8 not null default pg_current_xact_id(),
    entry_batch bigint,
    ev_retry_after timestamptz not null,
    ev_queue integer not null,
    ev_id bigint not null,
    ev_time timestamptz not null,
    ev_owner integer not null,
    ev_retry integer,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
);
comment on table pgq.retry_entry is 'One row per retry of an event by a consumer; the view pgq.retry_queue has those that wait.';
comment on column pgq.retry_entry.entry_txid is 'The transaction that wrote this row.';
comment on column pgq.retry_entry.entry_batch is 'The batch that the event was in; null from pgq.event_retry_raw.';
create table pgq.retry_entry_0 () inherits (pgq.retry_entry);
create table pgq.retry_entry_1 () inherits (pgq.retry_entry);
do $$
declare
    v_table name;
begin
    -- The parent is empty. It has indexes because it is read with its children.
    foreach v_table in array array['retry_entry', 'retry_entry_0', 'retry_entry_1']
    loop
        execute format('create index %I on pgq.%I (ev_retry_after)', v_table || '_after_idx', v_table);
        execute format('create index %I on pgq.%I (entry_txid)', v_table || '_txid_idx', v_table);
        -- Makes a transaction with an old snapshot fail instead of queueing an event twice.
        execute format(
            'create unique index %I on pgq.%I (ev_owner, ev_id, entry_batch)', v_table || '_event_idx', v_table
        );
    end loop;
end;
$$;

-- The progress of the mover, as a ledger; the newest row counts. An entry has been moved if the transaction that wrote
-- it is visible in pass_snapshot and its time is not after pass_time.
create table pgq.retry_pass (
    pass_id bigint primary key,
    pass_time timestamptz not null,
    pass_snapshot pg_snapshot not null,
    pass_table integer not null,
    pass_kept_bytes bigint not null
);
comment on table pgq.retry_pass is 'Passes that moved due events into their logs: their time and snapshot.';
comment on column pgq.retry_pass.pass_table is 'The table to which new rows of pgq.retry_entry go: 0 or 1.';
comment on column pgq.retry_pass.pass_kept_bytes is 'Size of that table when it took over from the other.';
insert into pgq.retry_pass values (1, '-infinity', pg_current_snapshot(), 0, 0);

-- A table in PgQ.
create view pgq.retry_queue as
select e.ev_retry_after, e.ev_queue, e.ev_id, e.ev_time, null::bigint as ev_txid, e.ev_owner, e.ev_retry,
    e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
from pgq.retry_entry as e
cross join (select p.* from pgq.retry_pass as p order by p.pass_id desc limit 1) as pass
where not (pg_visible_in_snapshot(e.entry_txid, pass.pass_snapshot) and e.ev_retry_after <= pass.pass_time);
comment on view pgq.retry_queue is 'Events that wait for redelivery to the consumer that retried them.';
grant select on pgq.retry_queue to pgq_admin, sluice_admin;
