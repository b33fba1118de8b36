/*
 * Fence of a send by key: an error unless this database is the shard, with a directory that is not newer than the sender's.
 *
 * The lock lasts until the end of the transaction and conflicts with that of sluice.begin_directory only. So after a
 * directory has begun here, no send that follows an older one commits. A lock of this mode on a table is taken without
 * the shared table of locks, and no row is written. Security definer: roles that send may not lock the table.
 *
 * Calls: -. Reads: sluice.shard.
 */
create or replace function sluice.check_shard(shard_name text, generation bigint)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    t sluice.shard;
begin
    lock table sluice.shard in row share mode;
    -- Above read committed the snapshot may be older than the lock; then the lock of a changed row fails with 40001.
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        select s.* into t from sluice.shard as s for share;
    else
        select s.* into t from sluice.shard as s;
    end if;
    if t.shard_name is distinct from check_shard.shard_name then
        raise exception using
            errcode = 'SH001',
            message = case
                when t.shard_name is null then format('the database %I is not the shard %I', current_database(), check_shard.shard_name)
                else format('the database %I is the shard %I, not %I', current_database(), t.shard_name, check_shard.shard_name)
            end,
            hint = 'correct its DSN in the file of shards, or run `pgsluice shards apply`';
    end if;
    if t.generation > check_shard.generation then
        raise exception using
            errcode = 'SH002',
            message = format(
                'shard %I has the directory of generation %s, and the sender that of %s', t.shard_name, t.generation, check_shard.generation
            ),
            hint = 'roll back, and send again: the sender has the newer directory now';
    end if;
    return true;
end;
$$;

comment on function sluice.check_shard(text, bigint) is
    'Return true if this database is the shard and its directory has this generation or an older one, else raise an error; until the end of the transaction no newer directory begins.';
revoke execute on function sluice.check_shard(text, bigint) from public;
grant execute on function sluice.check_shard(text, bigint) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
