create or replace function pgq._any_retry(i_after pg_snapshot, i_upto pg_snapshot)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return exists (
        select
        from pgq._ended_between(i_after, i_upto) as ended
        cross join lateral (
            select from pgq.retry_entry as e where e.entry_txid > ended.after_txid and e.entry_txid < ended.before_txid limit 1
        ) as found
    );
end;
$$;

comment on function pgq._any_retry(pg_snapshot, pg_snapshot) is
    'True if an entry was written by a transaction that the second snapshot sees and the first does not.';
revoke execute on function pgq._any_retry(pg_snapshot, pg_snapshot) from public;
grant execute on function pgq._any_retry(pg_snapshot, pg_snapshot) to pgq_admin, sluice_admin;
