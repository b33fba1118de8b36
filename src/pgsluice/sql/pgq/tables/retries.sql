-- Events that consumers retry, and events that their producer delayed. Rows are only appended: moving an event into its
-- log does not touch its row, and rows are removed in bulk by TRUNCATE. So there are no dead rows, even while a session
-- holds a snapshot. Two tables have one parent: new rows go to one; when it has grown, the rows still needed are copied
-- to the other.
--
-- A delayed event is an entry without an owner: it becomes an event for every consumer, and gets its number then. Many
-- entries may be due at one time, such as nine o'clock: a pass ends between two entries, not between two times.
create sequence pgq.retry_entry_id_seq;
create table pgq.retry_entry (
    entry_txid xid8 not null default pg_current_xact_id(),
    entry_batch bigint,
    ev_retry_after timestamptz not null,
    ev_queue integer not null,
    ev_id bigint,
    ev_time timestamptz not null,
    ev_owner integer,
    ev_retry integer,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    entry_id bigint not null default nextval('pgq.retry_entry_id_seq')
);
comment on table pgq.retry_entry is
    'One row per retry of an event by a consumer, and per event that was delayed by its producer.';
comment on column pgq.retry_entry.entry_txid is 'The transaction that wrote this row.';
comment on column pgq.retry_entry.entry_batch is 'The batch that the event was in; null from pgq.event_retry_raw.';
comment on column pgq.retry_entry.ev_owner is 'The consumer that retries it; null: a delayed event, for all consumers.';
comment on column pgq.retry_entry.entry_id is 'Orders the entries of the same time.';
create table pgq.retry_entry_0 () inherits (pgq.retry_entry);
create table pgq.retry_entry_1 () inherits (pgq.retry_entry);
-- The parent is empty. It has indexes because it is read with its children.
create index retry_entry_after_idx on pgq.retry_entry (ev_retry_after, entry_id);
create index retry_entry_txid_idx on pgq.retry_entry (entry_txid);
create index retry_entry_0_after_idx on pgq.retry_entry_0 (ev_retry_after, entry_id);
create index retry_entry_0_txid_idx on pgq.retry_entry_0 (entry_txid);
create index retry_entry_1_after_idx on pgq.retry_entry_1 (ev_retry_after, entry_id);
create index retry_entry_1_txid_idx on pgq.retry_entry_1 (entry_txid);
-- Makes a transaction with an old snapshot fail instead of queueing an event twice.
create unique index retry_entry_event_idx on pgq.retry_entry (ev_owner, ev_id, entry_batch) where ev_owner is not null;
create unique index retry_entry_0_event_idx on pgq.retry_entry_0 (ev_owner, ev_id, entry_batch) where ev_owner is not null;
create unique index retry_entry_1_event_idx on pgq.retry_entry_1 (ev_owner, ev_id, entry_batch) where ev_owner is not null;
-- As for event tables.
alter table pgq.retry_entry replica identity full;
alter table pgq.retry_entry_0 replica identity full;
alter table pgq.retry_entry_1 replica identity full;

-- The progress of the mover, as a ledger; the newest row counts. An entry has been moved if the transaction that wrote
-- it is visible in pass_snapshot and its time is not after pass_time.
create table pgq.retry_pass (
    pass_id bigint primary key,
    pass_time timestamptz not null,
    pass_snapshot pg_snapshot not null,
    pass_table integer not null,
    pass_kept_bytes bigint not null,
    pass_entry bigint not null,
    copied_time timestamptz not null,
    copied_entry bigint not null
);
comment on table pgq.retry_pass is 'Passes that moved due events into their logs: their time and snapshot.';
comment on column pgq.retry_pass.pass_table is 'The table to which new rows of pgq.retry_entry go: 0 or 1.';
comment on column pgq.retry_pass.pass_kept_bytes is 'Size of that table when it took over from the other.';
comment on column pgq.retry_pass.pass_entry is 'The last entry_id of pass_time that was moved.';
comment on column pgq.retry_pass.copied_time is
    'Set while the other table is being emptied: its entries up to this time and copied_entry have been copied and no longer count.';

-- A table in PgQ.
create view pgq.retry_queue as
select e.ev_retry_after, e.ev_queue, e.ev_id, e.ev_time, null::bigint as ev_txid, e.ev_owner, e.ev_retry,
    e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
from pgq.retry_entry as e
cross join (select p.* from pgq.retry_pass as p order by p.pass_id desc limit 1) as pass
where e.ev_owner is not null
  and not (
      pg_visible_in_snapshot(e.entry_txid, pass.pass_snapshot)
      and (e.ev_retry_after, e.entry_id) <= (pass.pass_time, pass.pass_entry)
  )
  and (
      e.tableoid <> case pass.pass_table when 0 then 'pgq.retry_entry_1'::regclass else 'pgq.retry_entry_0'::regclass end
      or (e.ev_retry_after, e.entry_id) > (pass.copied_time, pass.copied_entry)
  );
comment on view pgq.retry_queue is 'Events that wait for redelivery to the consumer that retried them.';
grant select on pgq.retry_queue to pgq_admin, sluice_admin;
