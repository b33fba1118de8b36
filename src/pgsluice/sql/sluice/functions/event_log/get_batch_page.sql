-- There is no index on ev_id, which would double the cost of an event. So each page reads the ids of the whole batch to find
-- its last one, and the batch again for its events. To resume and then read to the end, a cursor is cheaper:
-- sluice.batch_query(batch_id, columns, after_ev_id) reads the batch once.
create or replace function sluice.get_batch_page(
    batch_id bigint, after_ev_id bigint, qty integer,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry integer,
    out ev_type text, out ev_data text,
    out ev_extra1 text, out ev_extra2 text, out ev_extra3 text, out ev_extra4 text
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_query text := pgq.batch_event_sql(batch_id);
    v_after bigint := coalesce(after_ev_id, -9223372036854775808);
    v_upto bigint;
begin
    if qty is null or qty < 1 then
        raise exception using
            errcode = '22023',
            message = format('page size is %s', coalesce(qty::text, 'null')),
            hint = 'ask for 1 event or more';
    end if;
    -- Up to the qty-th id, with all events that have it: a redelivered event keeps its id, and a page that ended between
    -- two equal ids would skip the second.
    execute format(
        'select max(page.ev_id)
         from (select event.ev_id from (%s) as event where event.ev_id > $1 order by event.ev_id limit $2) as page',
        v_query
    )
    using v_after, qty
    into v_upto;
    return query execute format(
        'select event.* from (%s) as event where event.ev_id > $1 and event.ev_id <= $2 order by event.ev_id', v_query
    )
    using v_after, v_upto;
end;
$$;

comment on function sluice.get_batch_page(bigint, bigint, integer) is
    'Return the first qty events of an open batch after an ev_id, null for the start, by ev_id; more if several have the last ev_id.';
revoke execute on function sluice.get_batch_page(bigint, bigint, integer) from public;
grant execute on function sluice.get_batch_page(bigint, bigint, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
