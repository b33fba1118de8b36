create table pgmq.meta (
    queue_name varchar not null unique,
    is_partitioned boolean not null,
    is_unlogged boolean not null,
    created_at timestamptz not null default now()
);
comment on table pgmq.meta is 'One row per work queue.';
-- On a table without a replica identity, a publication of updates or deletes makes both fail. The tables of this schema
-- have no primary key, as in PGMQ; their unique constraints identify a row.
alter table pgmq.meta replica identity using index meta_queue_name_key;

grant select on pgmq.meta to sluice_writer, sluice_reader, sluice_monitor;
grant select, insert, update, delete on pgmq.meta to sluice_admin;
grant select on pgmq.meta to pg_monitor;

-- Clients decode these by position: the order of the fields is part of the contract.
create type pgmq.message_record as (
    msg_id bigint,
    read_ct integer,
    enqueued_at timestamptz,
    last_read_at timestamptz,
    vt timestamptz,
    message jsonb,
    headers jsonb
);

create type pgmq.queue_record as (
    queue_name varchar,
    is_partitioned boolean,
    is_unlogged boolean,
    created_at timestamptz
);

create type pgmq.metrics_result as (
    queue_name text,
    queue_length bigint,
    newest_msg_age_sec integer,
    oldest_msg_age_sec integer,
    total_messages bigint,
    scrape_time timestamptz,
    queue_visible_length bigint,
    default_partition_length bigint
);
