-- Always by the index on ev_txid of each segment, whatever the tables' statistics are.
create or replace function pgq._count_own_events(i_queue_id integer, i_events_max bigint)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_events bigint;
begin
    execute format(
        'select count(*) from (select from pgq.event_%s as e where e.ev_txid = $1 limit $2) as own', i_queue_id
    )
    using pg_current_xact_id(), i_events_max
    into v_events;
    return v_events;
end;
$$;

comment on function pgq._count_own_events(integer, bigint) is
    'Count the events of a log that this transaction has inserted and not rolled back, up to i_events_max.';
revoke execute on function pgq._count_own_events(integer, bigint) from public;
grant execute on function pgq._count_own_events(integer, bigint) to pgq_admin, sluice_admin;
