-- breaking: no
create table sluice.sink_commit (
    sink_id text primary key,
    version bigint not null,
    detail jsonb,
    committed_at timestamptz not null,
    expires_at timestamptz
);
comment on table sluice.sink_commit is
    'The newest committed version of each sink: written in the transaction of its rows, so that a repeated write adds nothing.';
comment on column sluice.sink_commit.detail is 'Detail stored by the writer.';
comment on column sluice.sink_commit.expires_at is 'When the writer can no longer repeat it; null: never.';
create index sink_commit_expires_at_idx on sluice.sink_commit (expires_at) where expires_at is not null;

create table sluice.stage (
    stage_id bigint primary key generated always as identity,
    sink_id text not null,
    version bigint not null,
    columns text[] not null,
    made_by name not null,
    made_at timestamptz not null
);
comment on table sluice.stage is
    'Tables named stage_ and a number, each with the rows of one task until the commit of their sink.';
create index stage_sink_id_version_idx on sluice.stage (sink_id, version);
create index stage_made_at_idx on sluice.stage (made_at);

-- Written by security definer functions; senders of stages read the columns.
grant select on sluice.stage to sluice_writer, pgq_writer, pgq_admin, sluice_monitor;
grant select, insert, update, delete on sluice.stage to sluice_admin;
grant select on sluice.sink_commit to sluice_writer, pgq_writer, pgq_admin, sluice_monitor;
grant select, insert, update, delete on sluice.sink_commit to sluice_admin;
