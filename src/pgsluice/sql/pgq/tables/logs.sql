create table pgq.queue (
    queue_id serial primary key,
    queue_name text not null unique,
    queue_ntables integer not null default 3,
    queue_cur_table integer not null default 0,
    queue_rotation_period interval not null default '2 hours',
    queue_switch_step1 xid8 not null default pg_current_xact_id(),
    queue_switch_step2 xid8 default pg_current_xact_id(),
    queue_switch_time timestamptz not null default now(),
    queue_external_ticker boolean not null default false,
    queue_disable_insert boolean not null default false,
    queue_ticker_paused boolean not null default false,
    queue_ticker_max_count integer not null default 500,
    queue_ticker_max_lag interval not null default '3 seconds',
    queue_ticker_idle_period interval not null default '1 minute',
    queue_per_tx_limit integer,
    queue_data_pfx text not null,
    queue_event_seq text not null,
    queue_tick_seq text not null,
    queue_extra_maint text[]
);
comment on table pgq.queue is 'One row per event log, with its settings.';
-- Functions that run with their owner's rights take names of tables and sequences from this row, which administrators
-- of logs may write. With arbitrary names they could reach any other object of the owner.
alter table pgq.queue add constraint queue_names_check check (
    queue_data_pfx = 'pgq.event_' || queue_id::text
    and queue_event_seq = 'pgq.event_' || queue_id::text || '_id_seq'
    and queue_tick_seq = 'pgq.event_' || queue_id::text || '_tick_seq'
);

-- A segment of a log is an event table and a tick table, which holds the ticks taken while that event table was
-- current. Both are truncated together. So neither has dead rows, even while a session holds a snapshot.
--
-- The ticks of one log are in children of pgq.tick_<id>, those of all logs in children of pgq.tick, which is empty
-- itself.
create table pgq.tick (
    tick_queue integer not null references pgq.queue (queue_id),
    tick_id bigint not null,
    tick_time timestamptz not null default now(),
    tick_snapshot pg_snapshot not null default pg_current_snapshot(),
    tick_event_seq bigint not null,
    constraint tick_pkey primary key (tick_queue, tick_id)
);
comment on table pgq.tick is 'One row per tick: the snapshot that bounds a batch. Ticks of a log are in snapshot order.';

-- Every event table inherits from this one. ev_txid is the top-level transaction: events of a savepoint carry the id
-- that decides whether they are visible.
create table pgq.event_template (
    ev_id bigint not null,
    ev_time timestamptz not null default now(),
    ev_txid xid8 not null default pg_current_xact_id(),
    ev_owner integer,
    ev_retry integer,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
);
-- On a table without a replica identity, a publication of updates or deletes makes both fail. Event tables and retry
-- entries have no primary key, and an index for one would slow down every insert. Rows are appended and truncated; the
-- few statements that update or delete rows publish the whole old row.
alter table pgq.event_template replica identity full;

-- Where the rows of a log were written. Transaction ids and snapshots are valid only where they were taken: in this
-- server, in physical copies of it (base backups, standbys, servers recovered to a point in time) and after pg_upgrade,
-- which all keep the files of tables and continue the ids. Restoring a dump keeps the values, but inserts the rows
-- again. So each row here has the transaction id of its own insertion: it equals the system column xmin until a dump is
-- restored. There are two rows, inserted by different (sub)transactions: the COPY of a restore, a single transaction,
-- cannot match both.
create table pgq.origin (
    queue_id integer not null,
    part integer not null check (part in (0, 1)),
    made_by xid not null,
    incarnation text not null,
    primary key (queue_id, part)
);
comment on table pgq.origin is
    'Two rows per event log, and two for the retry entries of all logs (queue_id 0): made_by equals xmin unless they were restored from a dump. Never update or rewrite them.';
comment on column pgq.origin.incarnation is 'Distinguishes this log from its restored copies; see sluice.log_incarnation.';

-- A transaction that truncates tables writes one row here. Its constraint trigger fires at the commit, the last moment
-- to look for pg_dump: see pgq._note_truncation. Nothing reads the rows; they are appended and truncated, because a
-- deleted row would stay under a held snapshot. After a restore the rows have transaction ids of another server, which
-- this one uses too: so the key has the time.
create table pgq.truncation (
    started_at timestamptz not null default now(),
    txid xid8 not null default pg_current_xact_id(),
    primary key (started_at, txid)
);
comment on table pgq.truncation is
    'Transactions that truncated tables; each row''s trigger rolls back a transaction during which pg_dump was started.';

-- Positions and ticks are public, as in PgQ: consumers, monitors and people read them.
grant select on pgq.queue, pgq.tick to public;
grant update on pgq.queue to pgq_admin, sluice_admin;
grant select on pgq.event_template to pgq_admin, pgq_reader, sluice_reader, sluice_admin;
