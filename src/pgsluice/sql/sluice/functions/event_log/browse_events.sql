/*
 * Events in the order of transaction and number: every log has an index on the transaction. So a page reads only the
 * transactions of its events, from the index of each segment. The index of a log with share groups has also the number: there
 * a page reads only its own rows.
 *
 * Redeliveries to a consumer are rows of their own, with ev_retry.
 */
create or replace function sluice.browse_events(
    log_name text,
    from_ev_txid xid8 default null,
    from_ev_id bigint default null,
    backward boolean default false,
    qty integer default 100,
    length_max integer default null
)
returns table (
    ev_id bigint, ev_time timestamptz, ev_txid xid8, ev_retry integer, ev_type text, ev_data text,
    ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text, data_bytes bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
    -- left() decompresses only the beginning of a long value, and octet_length() nothing. Both after the limit, so that texts of
    -- other events of a transaction are not read.
    return query execute format(
        'select e.ev_id, e.ev_time, e.ev_txid, e.ev_retry, left(e.ev_type, $4), left(e.ev_data, $4),
             left(e.ev_extra1, $4), left(e.ev_extra2, $4), left(e.ev_extra3, $4), left(e.ev_extra4, $4),
             octet_length(e.ev_data)::bigint
         from (
            select e.*
            from pgq.%1$I as e
            where (e.ev_txid, e.ev_id) %2$s ($1, $2)
            order by e.ev_txid %3$s, e.ev_id %3$s
            limit $3
         ) as e
         order by e.ev_txid %3$s, e.ev_id %3$s',
        format('event_%s', (pgq._require_log(log_name)).queue_id),
        case when backward then '<' else '>' end,
        case when backward then 'desc' else 'asc' end
    )
    using
        coalesce(from_ev_txid, case when backward then '18446744073709551615' else '0' end::xid8),
        coalesce(from_ev_id, 0), qty, coalesce(length_max, 2147483647);
end;
$$;

comment on function sluice.browse_events(text, xid8, bigint, boolean, integer, integer) is
    'Return events of a log after a position, or before it with backward, in the order of transaction and ev_id, without a consumer; length_max: longer texts are cut. data_bytes is the size of the whole ev_data.';
revoke execute on function sluice.browse_events(text, xid8, bigint, boolean, integer, integer) from public;
grant execute on function sluice.browse_events(text, xid8, bigint, boolean, integer, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
