-- breaking: no
create table sluice.retry_policy (
    queue_name varchar primary key references pgmq.meta (queue_name) on delete cascade,
    -- As pgmq.format_table_name() folds it: a message may fail by any spelling of the queue's name.
    queue_table text not null unique generated always as (lower('q_' || queue_name)) stored,
    max_attempts integer not null,
    backoff text not null,
    backoff_base interval not null,
    backoff_max interval not null,
    backoff_jitter boolean not null
);
comment on table sluice.retry_policy is
    'When messages of a queue that failed are tried again, and when they are given up; no row: as sluice.set_retry_policy does by default.';

grant select on sluice.retry_policy to sluice_reader, sluice_writer, sluice_monitor;
grant select, insert, update, delete on sluice.retry_policy to sluice_admin;

-- Changed at each attempt, under the lock of its message; no change touches an index, so there is room for it in the page.
create table sluice.attempt (
    queue_name text not null,
    msg_id bigint not null,
    enqueued_at timestamptz not null,
    read_ct integer not null,
    claimed_at timestamptz,
    state text not null check (state in ('begun', 'failed', 'handed back')),
    attempts integer not null,
    first_failed_at timestamptz,
    last_failed_at timestamptz,
    error_type text,
    error text,
    trace text,
    worker text,
    check_at timestamptz not null,
    primary key (queue_name, msg_id)
) with (fillfactor = 70);
comment on table sluice.attempt is
    'Messages that failed, were handed back, or were started a second time: how often they were tried. Most messages have no row.';
comment on column sluice.attempt.queue_name is 'In lower case, as upper and lower case name the same queue.';
comment on column sluice.attempt.enqueued_at is 'Of the message: where ids begin again, a row is not taken for that of another.';
comment on column sluice.attempt.read_ct is 'The last claim that something is known of.';
comment on column sluice.attempt.claimed_at is 'When that was: read_ct does not tell claims apart at the end of its range.';
comment on column sluice.attempt.state is 'What is known of that claim; begun, and nothing more, is what a process leaves that died.';
comment on column sluice.attempt.attempts is 'How many count, that one included; one that was handed back does not.';
comment on column sluice.attempt.check_at is 'When maintenance next looks whether the message is still there.';
create index attempt_check_at_idx on sluice.attempt (check_at);

grant select, insert, update, delete on sluice.attempt to sluice_reader, sluice_admin;

-- A claimed message, what is noted of it, and what is to become of it. Functions pass it on; no table has it.
create type sluice.tried_message as (
    position bigint,
    msg_id bigint,
    read_ct integer,
    enqueued_at timestamptz,
    claimed_at timestamptz,
    noted_state text,
    noted_claimed_at timestamptz,
    is_noted boolean,
    attempts integer,
    first_failed_at timestamptz,
    last_failed_at timestamptz,
    error_type text,
    error text,
    trace text,
    worker text,
    outcome text,
    note text,
    visible_at timestamptz,
    reason text
);

alter table sluice.dead_letter
    add column attempts integer,
    add column first_failed_at timestamptz,
    add column error_type text,
    add column trace text,
    add column worker text;
comment on column sluice.dead_letter.attempts is 'How often it was tried; null: nobody counted.';
-- What looks through them has more to filter by; a call of before finds the new functions, with their defaults.
drop function if exists sluice.browse_dead_letters(text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz);
drop function if exists sluice.count_dead_letters(text, jsonb, jsonb, timestamptz, timestamptz);
drop function if exists sluice.redrive_matching(text, text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz);
-- The oldest of a queue are purged first.
create index dead_letter_time_idx on sluice.dead_letter (lower(queue_name), dead_at);
