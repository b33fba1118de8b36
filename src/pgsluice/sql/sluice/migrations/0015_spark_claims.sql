-- breaking: no
create table sluice.queue_stream (
    stream_id bigint primary key generated always as identity,
    stream_name text not null unique,
    queue_name text not null,
    settled_seq bigint not null,
    made_at timestamptz not null
);
comment on table sluice.queue_stream is
    'Streams that read a work queue in micro-batches, which can be read again until they are settled.';

create table sluice.queue_stream_batch (
    stream_id bigint not null references sluice.queue_stream (stream_id) on delete cascade,
    seq bigint not null,
    mark timestamptz not null unique,
    messages bigint not null,
    claimed_at timestamptz not null,
    primary key (stream_id, seq)
);
comment on table sluice.queue_stream_batch is
    'Unsettled micro-batches: their messages are those of the queue whose vt is the mark.';

create sequence sluice.queue_stream_mark_seq;

grant select on sluice.queue_stream, sluice.queue_stream_batch to sluice_monitor;
grant select, insert, update, delete on sluice.queue_stream, sluice.queue_stream_batch to sluice_reader, sluice_admin;
grant usage on sequence sluice.queue_stream_mark_seq to sluice_reader, sluice_admin;
