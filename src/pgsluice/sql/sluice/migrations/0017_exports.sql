-- breaking: no
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
    'Tables of a lake into which archives are copied. What one of them does not hold for certain stays in the archive.';
comment on column sluice.export.lake is 'Where the table was when it was last written to.';
comment on column sluice.export.lake_id is
    'The table''s own identifier: another table in the same place does not hold what was copied into this one.';

-- Archived messages are verified one by one, and late ones come below those that are verified: no highest id and no time can
-- say which are. Sets of ids can. Those of a page are a few ranges, as most ids of a queue end up in its archive; where every
-- other one does not, there are 128 of them, which are still small enough to be asked for each row (4 microseconds instead of
-- one; with pages of 10,000 ids a millisecond. 2 busy cores, PostgreSQL 18, 2026-11-21).
create table sluice.exported_page (
    export_id bigint not null references sluice.export (export_id) on delete cascade,
    page bigint not null,
    msg_ids int8multirange not null,
    archived_from timestamptz not null,
    primary key (export_id, page)
);
comment on table sluice.exported_page is
    'Which messages of an archive an export has verified in its table of the lake, as long as they are in the archive too.';
comment on column sluice.exported_page.page is 'The msg_id divided by 256.';
comment on column sluice.exported_page.archived_from is
    'Of what every export has verified of this page, nothing was archived before this.';
create index exported_page_archived_from_idx on sluice.exported_page (export_id, archived_from);

grant select on sluice.export to sluice_reader, sluice_monitor;
grant select on sluice.exported_page to sluice_reader, sluice_monitor;
grant select, insert, update, delete on sluice.export, sluice.exported_page to sluice_admin;
