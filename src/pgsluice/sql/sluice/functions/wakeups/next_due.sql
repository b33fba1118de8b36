-- For idle consumers: messages that are ready were there for the last read. The time passed is that of the poll before that
-- read, so that no message falls between the two.
--
-- Calls: pgmq.format_table_name. Reads: the queue's table.
create or replace function sluice.next_due(queue_name text, after timestamptz default null)
returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_next_due timestamptz;
begin
    execute format(
        'select deferred.vt
         from pgmq.%I as deferred
         where deferred.vt > deferred.enqueued_at and deferred.vt > $1 and deferred.vt < ''infinity''
         order by deferred.vt
         limit 1',
        pgmq.format_table_name(queue_name, 'q')
    )
    using coalesce(after, clock_timestamp())
    into v_next_due;
    return v_next_due;
end;
$$;

comment on function sluice.next_due(text, timestamptz) is
    'Return when the next message of a queue becomes visible after a time (null: now), because its delay ends or its claim expires; null if there is none.';
revoke execute on function sluice.next_due(text, timestamptz) from public;
grant execute on function sluice.next_due(text, timestamptz) to sluice_admin, sluice_reader, sluice_monitor;
