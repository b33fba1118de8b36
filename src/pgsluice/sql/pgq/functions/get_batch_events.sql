create or replace function pgq.get_batch_events(
    x_batch_id bigint,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry integer,
    out ev_type text, out ev_data text,
    out ev_extra1 text, out ev_extra2 text, out ev_extra3 text, out ev_extra4 text
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_batch record;
begin
    select s.sub_id, s.sub_queue, s.pos_last_snapshot, s.pos_next_snapshot
    into v_batch
    from pgq.standing as s
    where s.pos_batch = x_batch_id;
    if not found then
        raise exception using
            errcode = 'PQ003',
            message = 'batch not found',
            detail = format('The batch id is %s.', x_batch_id),
            hint = 'open a batch with pgq.next_batch(); a finished one cannot be read again';
    end if;

    return query execute format(
        'select event.ev_id, event.ev_time, event.ev_txid::text::bigint, event.ev_retry, event.ev_type, event.ev_data,
            event.ev_extra1, event.ev_extra2, event.ev_extra3, event.ev_extra4
         from (%s) as event
         where event.ev_owner is null or event.ev_owner = $1
         order by event.ev_id',
        pgq._events_between_sql(v_batch.sub_queue, v_batch.pos_last_snapshot, v_batch.pos_next_snapshot)
    )
    using v_batch.sub_id;
end;
$$;

comment on function pgq.get_batch_events(bigint) is
    'The events of an open batch, by ev_id.';
revoke execute on function pgq.get_batch_events(bigint) from public;
grant execute on function pgq.get_batch_events(bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
