-- Logs with share groups have an index by number: a page costs its events, and the first and the last page also read the
-- batch's part of the index by transaction. Other logs do not have it, because it makes each insert slower: there, each page
-- of a small batch reads the ids of the whole batch to find its last one, and the batch again for its events. For a large
-- one see pgq._batch_page. To resume and then read to the end, sluice.batch_query(batch_id, columns, after_ev_id) reads the
-- batch once.
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
    v_batch record;
    v_query text;
    v_after bigint := coalesce(after_ev_id, -9223372036854775808);
    v_upto bigint;
begin
    if qty is null or qty < 1 then
        raise exception using
            errcode = '22023',
            message = format('page size is %s', coalesce(qty::text, 'null')),
            hint = 'ask for 1 event or more';
    end if;
    select s.sub_queue, s.sub_id, s.pos_last_snapshot, s.pos_last_seq, s.pos_next_snapshot, s.pos_next_seq
    into v_batch
    from pgq.standing as s
    where s.sub_key = (select b.sub_key from pgq.open_batch as b where b.batch_id = get_batch_page.batch_id)
      and s.pos_batch = get_batch_page.batch_id;
    if found and to_regclass(format('pgq.event_%s_id_idx', v_batch.sub_queue)) is not null then
        return query execute format(
            'select e.ev_id, e.ev_time, e.ev_txid::text::bigint, e.ev_retry, e.ev_type, e.ev_data,
                e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
             from unnest(pgq.%I($1, $2, $3, $4, $5, $6, $7)) with ordinality as e (
                ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4, position
             )
             order by e.position',
            format('event_%s_next', v_batch.sub_queue)
        )
        using v_batch.pos_last_snapshot, v_batch.pos_last_seq, v_batch.pos_next_snapshot, v_batch.pos_next_seq, after_ev_id,
            v_batch.sub_id, qty;
        return;
    end if;
    if v_batch.pos_next_seq - v_batch.pos_last_seq > 20000 then
        return query
            select e.ev_id, e.ev_time, e.ev_txid::text::bigint, e.ev_retry, e.ev_type, e.ev_data,
                e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
            from pgq._batch_page(
                v_batch.sub_queue, v_batch.sub_id, v_batch.pos_last_snapshot, v_batch.pos_next_snapshot, after_ev_id, qty
            ) with ordinality as e (
                ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4, position
            )
            order by e.position;
        return;
    end if;
    v_query := pgq.batch_event_sql(batch_id);
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
