-- breaking: no
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

create table pgq.tick (
    tick_queue integer not null references pgq.queue (queue_id),
    tick_id bigint not null,
    tick_time timestamptz not null default now(),
    tick_snapshot pg_snapshot not null default pg_current_snapshot(),
    tick_event_seq bigint not null,
    constraint tick_pkey primary key (tick_queue, tick_id)
);
comment on table pgq.tick is 'One row per tick: the snapshot that bounds a batch. Ticks of a log are in snapshot order.';

create table pgq.consumer (
    co_id serial primary key,
    co_name text not null unique
);
comment on table pgq.consumer is 'One row per consumer name.';

create table pgq.subscription (
    sub_id serial not null,
    sub_queue integer not null references pgq.queue (queue_id),
    sub_consumer integer not null references pgq.consumer (co_id),
    sub_last_tick bigint,
    sub_active timestamptz not null default now(),
    sub_batch bigint,
    sub_next_tick bigint,
    constraint subscription_pkey primary key (sub_queue, sub_consumer),
    constraint subscription_batch_idx unique (sub_batch)
);
comment on table pgq.subscription is
    'A consumer''s position in a log: it has finished everything up to sub_last_tick; sub_batch is open up to sub_next_tick.';

create sequence pgq.batch_id_seq;

-- Every event table inherits from this one. ev_txid is the top-level transaction: events of a savepoint carry the id
-- that decides whether they are visible.
create table pgq.event_template (
    ev_id bigint not null,
    ev_time timestamptz not null,
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

-- Positions and ticks are public, as in PgQ: consumers, monitors and people read them.
grant select on pgq.queue, pgq.tick, pgq.consumer, pgq.subscription to public;
grant update on pgq.queue, pgq.subscription to sluice_admin;
grant select on pgq.event_template to sluice_reader, sluice_admin;
