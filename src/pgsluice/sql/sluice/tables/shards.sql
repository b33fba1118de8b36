create table sluice.shard (
    is_only boolean primary key default true check (is_only),
    shard_name text not null,
    generation bigint not null,
    directory jsonb not null,
    is_moving boolean not null,
    directory_before jsonb,
    changed_at timestamptz not null
);
comment on table sluice.shard is
    'Of a database that is a shard: its name, and the directory of all shards. One row, or none. Written by sluice.begin_directory and sluice.finish_directory; sends by key lock the table, see sluice.check_shard.';
comment on column sluice.shard.generation is 'Number of the directory: each change has the next one.';
comment on column sluice.shard.directory is 'Object with names, an array of the names of all shards, and pins, an object of shard by key.';
comment on column sluice.shard.is_moving is 'True while messages of keys move from their shard in directory_before to that in directory: such keys are not sent.';
comment on column sluice.shard.directory_before is 'The directory of the generation before; null: none, or nothing moves.';

grant select on sluice.shard to pgq_admin, pgq_reader, pgq_writer, sluice_admin, sluice_monitor, sluice_reader, sluice_writer;
