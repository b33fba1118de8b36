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

create table sluice.captured_partition (
    queue_id integer not null references pgq.queue (queue_id) on delete cascade,
    table_oid oid not null,
    partition_oid oid not null,
    partition_name text not null,
    is_captured boolean not null,
    detached_at timestamptz,
    primary key (queue_id, table_oid, partition_oid)
);
comment on table sluice.captured_partition is
    'Partitions of captured tables, to tell which were dropped or detached. Written by sluice.capture and sluice.maintain.';
comment on column sluice.captured_partition.partition_name is 'Its name in PostgreSQL''s notation when maintenance last saw it.';
comment on column sluice.captured_partition.is_captured is 'False until it has the triggers of the capture.';
comment on column sluice.captured_partition.detached_at is 'Time at which maintenance noticed that it was detached; null while it is a partition.';
grant select on sluice.captured_partition to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
