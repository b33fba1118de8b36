-- breaking: no
create table sluice.retention (
    queue_name varchar primary key references pgmq.meta (queue_name) on delete cascade,
    archive_retention interval not null
);
comment on table sluice.retention is
    'Retention of archived messages, for each queue whose archive has one.';

grant select on sluice.retention to sluice_writer, sluice_reader, sluice_monitor;
grant select, insert, update, delete on sluice.retention to sluice_admin;

-- The position of a replay is stored here instead of with its caller: concurrent callers run one after the other, and after
-- a crash the next one continues.
create table sluice.replay (
    replay_id bigint generated always as identity primary key,
    queue_name varchar not null references pgmq.meta (queue_name) on delete cascade,
    target_queue_name varchar not null references pgmq.meta (queue_name) on delete cascade,
    conditional jsonb,
    conditional_headers jsonb,
    since timestamptz,
    until timestamptz not null,
    after_msg_id bigint,
    up_to_msg_id bigint,
    replayed bigint not null default 0,
    started_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz
);
comment on table sluice.replay is
    'Running and finished replays of archives: their selection, target and position.';
comment on column sluice.replay.after_msg_id is 'The last archived message that was replayed.';
comment on column sluice.replay.up_to_msg_id is
    'The last message of the archive at the start: replayed messages may be archived meanwhile, and the replay would not terminate.';

grant select on sluice.replay to sluice_reader;
grant select, insert, update, delete on sluice.replay to sluice_admin;

-- A stored message: PGMQ's fields, and those that distinguish queue and archive.
create type sluice.stored_message as (
    msg_id bigint,
    read_ct integer,
    enqueued_at timestamptz,
    last_read_at timestamptz,
    vt timestamptz,
    archived_at timestamptz,
    state text,
    message jsonb,
    headers jsonb
);

-- Dead letters have their queue's name as given: names are case-insensitive.
drop index sluice.dead_letter_queue_name_idx;
create index dead_letter_queue_idx on sluice.dead_letter (lower(queue_name), dead_letter_id);
create index dead_letter_msg_id_idx on sluice.dead_letter (lower(queue_name), msg_id);
-- They are locked before they are moved.
grant update on sluice.dead_letter to sluice_admin;
