-- Security definer: roles that manage shards may not change the table. Repeating a call changes nothing.
create or replace function sluice.finish_directory(generation bigint)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update sluice.shard as s
    set is_moving = false,
        directory_before = null,
        changed_at = clock_timestamp()
    where s.generation = finish_directory.generation and s.is_moving;
    if not found and not exists (select from sluice.shard as s where s.generation = finish_directory.generation) then
        raise exception using
            errcode = 'SH003',
            message = format('the database %I has no directory of generation %s', current_database(), finish_directory.generation),
            hint = 'begin it with sluice.begin_directory()';
    end if;
end;
$$;

comment on function sluice.finish_directory(bigint) is
    'Mark the directory of this generation as active: the messages of all keys are in their shards.';
revoke execute on function sluice.finish_directory(bigint) from public;
grant execute on function sluice.finish_directory(bigint) to sluice_admin;
