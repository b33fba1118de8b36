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

create table sluice.export (
    export_id bigint generated always as identity primary key,
    queue_name varchar not null references pgmq.meta (queue_name) on delete cascade,
    export_name text not null,
    lake text not null,
    lake_id text not null,
    created_at timestamptz not null default clock_timestamp(),
    verified_at timestamptz,
    unique (queue_name, export_name)
);
comment on table sluice.export is
    'Lake tables to which archives are copied. Messages not verified in every one stay in the archive.';
comment on column sluice.export.lake is 'Location of the table at its last write.';
comment on column sluice.export.lake_id is
    'Identifier of the table: another table at the same location does not have its rows.';

-- Archived messages are verified individually, and late ones have lower ids than verified ones: neither a highest id nor a
-- time can represent the verified set. Multiranges of ids can. A page has a few ranges, because most ids of a queue end up in
-- its archive; if every other one does not, it has 128, still small enough to test for each row (4 microseconds instead of
-- one; with pages of 10,000 ids a millisecond. 2 busy cores, PostgreSQL 18, 2026-11-21).
create table sluice.exported_page (
    export_id bigint not null references sluice.export (export_id) on delete cascade,
    page bigint not null,
    msg_ids int8multirange not null,
    archived_from timestamptz not null,
    primary key (export_id, page)
);
comment on table sluice.exported_page is
    'Messages that an export has verified in its lake table, while they are in the archive.';
comment on column sluice.exported_page.page is 'The msg_id divided by 256.';
comment on column sluice.exported_page.archived_from is
    'A lower bound of archived_at of the messages of this page that every export has verified.';
create index exported_page_archived_from_idx on sluice.exported_page (export_id, archived_from);

grant select on sluice.replay to sluice_reader;
grant select, insert, update, delete on sluice.replay to sluice_admin;
grant select on sluice.export to sluice_reader, sluice_monitor;
grant select on sluice.exported_page to sluice_reader, sluice_monitor;
grant select, insert, update, delete on sluice.export, sluice.exported_page to sluice_admin;
