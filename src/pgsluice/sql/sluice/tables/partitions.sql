create table sluice.partitioned_table (
    table_name name primary key,
    queue_name varchar not null references pgmq.meta (queue_name) on delete cascade,
    partition_interval text not null,
    retention_interval text,
    premake integer not null check (premake >= 1),
    maintained_at timestamptz not null default to_timestamp(0)
);
comment on table sluice.partitioned_table is
    'Tables of queues and archives whose partitions sluice.maintain() creates and drops.';
comment on column sluice.partitioned_table.table_name is 'In schema pgmq.';
comment on column sluice.partitioned_table.partition_interval is
    'The range of a partition: a number of ids, or a time. A change applies to new partitions.';
comment on column sluice.partitioned_table.retention_interval is
    'A partition is dropped with its messages when it is wholly older than this; null: never.';
comment on column sluice.partitioned_table.premake is 'Number of partitions created in advance.';
comment on column sluice.partitioned_table.maintained_at is
    'When sluice.maintain() last processed it; the oldest comes first.';
create index partitioned_table_queue_name_idx on sluice.partitioned_table (queue_name);

grant select on sluice.partitioned_table to sluice_reader, sluice_monitor;
grant select, insert, update, delete on sluice.partitioned_table to sluice_admin;
