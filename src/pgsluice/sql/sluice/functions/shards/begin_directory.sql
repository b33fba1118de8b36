/*
 * The lock waits for sends by key of the generation before, and later ones wait for it: they are refused when this commits.
 * The wait is bounded, as sends wait behind it. Repeating a call changes nothing.
 *
 * Writes: sluice.shard. Security definer: roles that manage shards may not lock the table.
 */
create or replace function sluice.begin_directory(
    shard_name text, generation bigint, directory jsonb, directory_before jsonb
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    t sluice.shard;
begin
    lock table sluice.shard in exclusive mode;
    select s.* into t from sluice.shard as s;
    if t.shard_name <> begin_directory.shard_name then
        raise exception using
            errcode = 'SH001',
            message = format('the database %I is the shard %I, not %I', current_database(), t.shard_name, begin_directory.shard_name),
            hint = 'correct its DSN in the file of shards';
    end if;
    if t.generation = begin_directory.generation and t.directory = begin_directory.directory then
        return;
    end if;
    if t.generation >= begin_directory.generation or t.is_moving then
        raise exception using
            errcode = 'SH003',
            message = format(
                'shard %I has the directory of generation %s, %s: generation %s cannot begin',
                t.shard_name, t.generation, case when t.is_moving then 'whose messages still move' else 'which is active' end,
                begin_directory.generation
            ),
            hint = 'finish or repeat the change that has begun, then make this one';
    end if;
    insert into sluice.shard (shard_name, generation, directory, is_moving, directory_before, changed_at)
    values (
        begin_directory.shard_name, begin_directory.generation, begin_directory.directory, true, begin_directory.directory_before,
        clock_timestamp()
    )
    on conflict on constraint shard_pkey do update
    set generation = excluded.generation,
        directory = excluded.directory,
        is_moving = true,
        directory_before = excluded.directory_before,
        changed_at = excluded.changed_at;
end;
$$;

comment on function sluice.begin_directory(text, bigint, jsonb, jsonb) is
    'Make a directory that of this database, with the name of its shard: from the commit on, sends by key that follow an older one are refused. Keys whose shard differs from that in directory_before are sent again after sluice.finish_directory.';
revoke execute on function sluice.begin_directory(text, bigint, jsonb, jsonb) from public;
grant execute on function sluice.begin_directory(text, bigint, jsonb, jsonb) to sluice_admin;
