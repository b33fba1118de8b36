-- breaking: no
create table sluice.retention (
    queue_name varchar primary key references pgmq.meta (queue_name) on delete cascade,
    archive_retention interval not null
);
comment on table sluice.retention is
    'How long archived messages are kept, for each queue whose archive is not kept for ever.';

grant select on sluice.retention to sluice_writer, sluice_reader, sluice_monitor;
grant select, insert, update, delete on sluice.retention to sluice_admin;

-- Where a replay stands is here and not with its caller: two that go on with one take turns, and one that dies leaves
-- its place to the next.
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
    'Replays of archives, under way and finished: what they send again, where to, and how far they are.';
comment on column sluice.replay.after_msg_id is 'The last archived message that was sent again.';
comment on column sluice.replay.up_to_msg_id is
    'The last message of the archive when it began: what it sends again may be archived meanwhile, and would have no end.';

grant select on sluice.replay to sluice_reader;
grant select, insert, update, delete on sluice.replay to sluice_admin;

-- A message where it is: PGMQ's fields, and what tells a queue from an archive.
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

-- Dead letters have their queue's name as it was given: upper and lower case name the same queue.
drop index sluice.dead_letter_queue_name_idx;
create index dead_letter_queue_idx on sluice.dead_letter (lower(queue_name), dead_letter_id);
create index dead_letter_msg_id_idx on sluice.dead_letter (lower(queue_name), msg_id);
-- They are locked before they are moved.
grant update on sluice.dead_letter to sluice_admin;
