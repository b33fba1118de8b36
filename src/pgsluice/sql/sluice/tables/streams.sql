-- Of a claimed micro-batch that is not settled: its messages are those of the queue whose vt is the mark.
create type sluice.queue_stream_batch as (
    seq bigint,
    mark timestamptz,
    messages bigint,
    claimed_at timestamptz
);

create table sluice.queue_stream (
    stream_id bigint primary key generated always as identity,
    stream_name text not null unique,
    queue_name text not null,
    settled_seq bigint not null,
    batches sluice.queue_stream_batch[] not null default '{}',
    made_at timestamptz not null
);
comment on table sluice.queue_stream is
    'Streams that read a work queue in micro-batches, which can be read again until they are settled.';
comment on column sluice.queue_stream.batches is 'The micro-batches that are not settled; a stream has one or two.';

create sequence sluice.queue_stream_mark_seq;

grant select on sluice.queue_stream to sluice_monitor;
grant select, insert, update, delete on sluice.queue_stream to sluice_reader, sluice_admin;
grant usage on sequence sluice.queue_stream_mark_seq to sluice_reader, sluice_admin;

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

create sequence sluice.offset_flush_seq;
comment on sequence sluice.offset_flush_seq is
    'Set, always to 1, by transactions that return a snapshot as an offset: they must write for their commit to be flushed.';
