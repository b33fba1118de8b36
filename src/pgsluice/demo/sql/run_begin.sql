-- The mark of a run: the first thing in the database, so that nothing unmarked is ever dropped.
create schema demo;

create table demo.run (
    run_id text primary key,
    seconds integer not null,
    clients integer not null,
    accounts integer not null,
    started_at timestamptz not null default clock_timestamp(),
    prepared_at timestamptz,
    loaded_at timestamptz,
    finished_at timestamptz,
    interruptions integer not null default 0,
    poison_msg_id bigint
);
comment on table demo.run is 'How far the run came: what a run after a crash goes on from.';

-- No unique constraint on msg_id: a message processed twice must be seen, not prevented.
create table demo.processed (
    msg_id bigint not null,
    aid integer not null,
    tid integer not null,
    bid integer not null,
    delta integer not null,
    attempt integer not null,
    fails_first boolean not null,
    enqueued_at timestamptz not null,
    processed_at timestamptz not null default clock_timestamp()
);
comment on table demo.processed is 'What the workers did, one row per message.';
