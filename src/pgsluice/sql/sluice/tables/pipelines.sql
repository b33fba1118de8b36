create table sluice.pipeline (
    pipeline_id bigint generated always as identity primary key,
    queue_id integer not null references pgq.queue (queue_id) on delete cascade,
    consumer_name text not null,
    kind text not null,
    lake text not null,
    held_since timestamptz not null,
    held_by text not null,
    unique (queue_id, consumer_name)
);
comment on table sluice.pipeline is
    'Pipelines from an event log into the lake, one row per log and consumer. Written by sluice.hold_pipeline.';
comment on column sluice.pipeline.held_by is 'The last session that held the consumer: its pid, role, application and address.';

-- A row updated every few seconds would leave dead versions under a held snapshot. Rows are appended, and truncated when
-- there are many.
create table sluice.pipeline_report (
    report_id bigint generated always as identity,
    pipeline_id bigint not null references sluice.pipeline (pipeline_id) on delete cascade,
    reported_at timestamptz not null,
    last_commit_at timestamptz,
    row_count bigint not null,
    primary key (pipeline_id, report_id)
);
comment on table sluice.pipeline_report is
    'Progress of pipelines; the newest row of each counts. Written by sluice.report_pipeline.';
comment on column sluice.pipeline_report.row_count is 'Rows written since the start of the query.';

grant select on sluice.pipeline, sluice.pipeline_report
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;

-- Not unique: two transactions that meet a new shape concurrently both note it, as neither may wait for the other.
create table sluice.captured_shape (
    shape_id bigint generated always as identity primary key,
    table_oid oid not null,
    shape text not null,
    columns jsonb not null,
    attribute_count integer not null,
    storage text,
    noted_by xid8 not null default pg_current_xact_id(),
    noted_at timestamptz not null default clock_timestamp()
);
create index captured_shape_shape_idx on sluice.captured_shape (shape);
comment on table sluice.captured_shape is
    'Columns of captured tables as their events have them, by the id in ev_extra2 of the events. Written by sluice.capture and its triggers.';
comment on column sluice.captured_shape.columns is
    'The captured columns in order: attnum, name, type, modifier, and what tells that PostgreSQL changed values without events; null where a transaction could not see it.';
comment on column sluice.captured_shape.attribute_count is 'Number of all columns that the table ever had: a later one has a higher attnum.';
comment on column sluice.captured_shape.storage is 'Table and file node of the rows, of the first partition if it has partitions: another file node after a rewrite.';
comment on column sluice.captured_shape.noted_by is 'The transaction: until its end it can be rolled back.';
grant select on sluice.captured_shape to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
