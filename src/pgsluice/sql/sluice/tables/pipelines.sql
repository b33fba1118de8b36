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
