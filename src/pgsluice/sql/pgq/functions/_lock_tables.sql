-- A session that waits for a strong lock makes all later sessions wait too. So this does not wait, except for the short
-- times given in pgq._reclaim, pgq._maintain_retry and sluice._maintain_ledgers. Callers that request access exclusive
-- are about to truncate tables: they get no lock while pg_dump runs, and their transaction is rolled back if pg_dump is
-- started before its commit.
create or replace function pgq._lock_tables(i_tables regclass[], i_mode text, i_wait_ms integer)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_timeout_before text := current_setting('lock_timeout');
begin
    if i_wait_ms > 0 then
        perform set_config('lock_timeout', i_wait_ms::text, true);
    end if;
    execute format(
        'lock table %s in %s mode %s',
        (select string_agg(format('only %s', t.name), ', ' order by t.position) from unnest(i_tables) with ordinality as t (name, position)),
        i_mode,
        case when i_wait_ms > 0 then '' else 'nowait' end
    );
    perform set_config('lock_timeout', v_lock_timeout_before, true);
    if i_mode = 'access exclusive' then
        if pgq._dumped_by() is not null then
            raise lock_not_available; -- rolls back the locks taken in this block
        end if;
        perform pgq._note_truncation();
    end if;
    return true;
exception
    when lock_not_available then
        return false; -- the rollback restored lock_timeout
end;
$$;

comment on function pgq._lock_tables(regclass[], text, integer) is
    'Lock tables in a mode, all or none; false if another lock conflicts after i_wait_ms, or if pg_dump runs and the mode is access exclusive.';
revoke execute on function pgq._lock_tables(regclass[], text, integer) from public;
grant execute on function pgq._lock_tables(regclass[], text, integer) to pgq_admin, sluice_admin;
