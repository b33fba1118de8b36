-- The mark of a run, created first, so that the demo never drops an unmarked database.
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
comment on table demo.run is 'The progress of the run, from which it resumes after a crash.';

-- No unique constraint on msg_id: duplicate processing must be detected instead of prevented.
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
comment on table demo.processed is 'Processed messages, one row per message.';
