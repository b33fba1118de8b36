-- An offset names transactions by their ids. After a crash PostgreSQL reuses ids whose records were not flushed: those of
-- transactions that rolled back or committed asynchronously, which the offset calls seen. So this transaction takes an id
-- above them all, writes a record and commits synchronously. A transaction that takes an id and writes nothing commits
-- asynchronously, whatever synchronous_commit is: hence the sequence, which is neither a row nor in a publication of tables.
--
-- Security definer: readers of a log may not write the sequence.
create or replace function sluice._flush_offset()
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_is_in_recovery() then
        raise exception using
            errcode = 'PQ004',
            message = 'an offset of an event log cannot be a snapshot on a standby',
            detail = 'A snapshot of a standby does not list the transactions that are running.',
            hint = 'read by ticks here, or connect to the primary';
    end if;
    if current_setting('transaction_read_only')::boolean then
        raise exception using
            errcode = 'PQ004',
            message = 'an offset of an event log cannot be a snapshot in a read-only transaction',
            detail = 'It is made durable by a record in the write-ahead log; after a crash it would otherwise cover events that are committed later.',
            hint = 'call it in a read-write transaction of its own, or read by ticks';
    end if;
    perform setval('sluice.offset_flush_seq', 1);
    perform pgq._commit_durably();
end;
$$;

comment on function sluice._flush_offset() is
    'Make every transaction that the snapshots of this transaction see durable at its commit.';
revoke execute on function sluice._flush_offset() from public;
grant execute on function sluice._flush_offset() to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
