-- For transactions whose result is stored outside this server: a tick, an offset, a micro-batch number. Their commit is
-- flushed before another session sees it. Whatever ended before it, by asynchronous commit or by rollback, precedes it
-- in the WAL and is flushed with it, so none of those transaction ids is reused after a crash.
create or replace function pgq._commit_durably()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end;
$$;

comment on function pgq._commit_durably() is
    'Make the commit of this transaction synchronous if the session turned that off.';
revoke execute on function pgq._commit_durably() from public;
grant execute on function pgq._commit_durably() to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
