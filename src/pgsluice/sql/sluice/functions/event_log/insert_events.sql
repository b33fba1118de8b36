-- The dynamic statement is planned once per call.
create or replace function sluice.insert_events(
    log_name text, ev_type text[], ev_data text[],
    ev_extra1 text[] default null, ev_extra2 text[] default null,
    ev_extra3 text[] default null, ev_extra4 text[] default null
)
returns setof bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_txid constant xid8 := pg_current_xact_id(); -- before the numbers, as in pgq.insert_event
    v_events constant integer := cardinality(ev_data);
    v_queue pgq.queue;
begin
    if ev_data is null then
        raise exception using
            errcode = '22004',
            message = 'ev_data is null',
            hint = 'give an array with the data of each event; one without data is a null in it';
    end if;
    if v_events <> any (array[
        coalesce(cardinality(ev_type), v_events),
        coalesce(cardinality(ev_extra1), v_events), coalesce(cardinality(ev_extra2), v_events),
        coalesce(cardinality(ev_extra3), v_events), coalesce(cardinality(ev_extra4), v_events)
    ]) then
        raise exception using
            errcode = '22023',
            message = 'arrays of events differ in length',
            detail = (
                select string_agg(format('%s has %s', given.name, given.length), ', ' order by given.position) || '.'
                from (values
                    (1, 'ev_data', v_events), (2, 'ev_type', cardinality(ev_type)),
                    (3, 'ev_extra1', cardinality(ev_extra1)), (4, 'ev_extra2', cardinality(ev_extra2)),
                    (5, 'ev_extra3', cardinality(ev_extra3)), (6, 'ev_extra4', cardinality(ev_extra4))
                ) as given (position, name, length)
                where given.length is not null
            ),
            hint = 'give each array one element for each event, or null for the whole array';
    end if;

    v_queue := pgq._admit_events(log_name, v_events::bigint);
    return query execute format(
        'insert into pgq.event_%s_%s (ev_id, ev_time, ev_txid, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
         select nextval($1), now(), $2, e.* from unnest($3, $4, $5, $6, $7, $8) as e
         returning ev_id',
        v_queue.queue_id, v_queue.queue_cur_table
    )
    using v_queue.queue_event_seq::regclass, v_txid, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4;
end;
$$;

comment on function sluice.insert_events(text, text[], text[], text[], text[], text[], text[]) is
    'Append events, the n-th elements of the arrays being the n-th event; returns their ev_ids in that order. A null array: the field is null in every event.';
revoke execute on function sluice.insert_events(text, text[], text[], text[], text[], text[], text[]) from public;
grant execute on function sluice.insert_events(text, text[], text[], text[], text[], text[], text[]) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
