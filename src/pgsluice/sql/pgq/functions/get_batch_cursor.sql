-- i_extra_where is SQL from the caller. It runs with the caller's rights, as this whole function does, and with this
-- function's search_path: names outside of pg_catalog must be qualified.
--
-- A session that opens a second cursor over a large batch reads it in pages: the first rows of that cursor and of later ones
-- come from pgq._batch_page, and the cursor, which sorts the batch, runs only if it is fetched from.
create or replace function pgq.get_batch_cursor(
    i_batch_id bigint, i_cursor_name text, i_quick_limit integer, i_extra_where text,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry integer,
    out ev_type text, out ev_data text,
    out ev_extra1 text, out ev_extra2 text, out ev_extra3 text, out ev_extra4 text
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_query text;
    v_batch record;
    v_events pgq.event_template[];
begin
    if i_batch_id is null or i_cursor_name is null or i_quick_limit is null then
        return;
    end if;
    v_query := pgq.batch_event_sql(i_batch_id);
    if i_quick_limit > 0 and i_extra_where is null then
        select s.sub_queue, s.sub_id, s.pos_last_snapshot, s.pos_next_snapshot
        into v_batch
        from pgq.standing as s
        where s.sub_key = (select b.sub_key from pgq.open_batch as b where b.batch_id = i_batch_id)
          and s.pos_batch = i_batch_id
          and s.pos_next_seq - s.pos_last_seq > 20000
          and to_regclass(format('pgq.event_%s_id_idx', s.sub_queue)) is null;
        if found and current_setting('sluice.batch_cursor', true) = i_batch_id::text then
            v_events := array(
                select e
                from pgq._batch_page(
                    v_batch.sub_queue, v_batch.sub_id, v_batch.pos_last_snapshot, v_batch.pos_next_snapshot, null::bigint, i_quick_limit
                ) as e
            );
            -- More than the limit: several events have the last number.
            if cardinality(v_events) between 1 and i_quick_limit then
                execute format(
                    'declare %I no scroll cursor for %s', i_cursor_name,
                    pgq._batch_sql(
                        v_batch.sub_queue, v_batch.sub_id, v_batch.pos_last_snapshot, v_batch.pos_next_snapshot,
                        '{ev_id,ev_time,ev_txid,ev_retry,ev_type,ev_data,ev_extra1,ev_extra2,ev_extra3,ev_extra4}'::text[],
                        (v_events[cardinality(v_events)]).ev_id
                    )
                );
                return query
                    select e.ev_id, e.ev_time, e.ev_txid::text::bigint, e.ev_retry, e.ev_type, e.ev_data,
                        e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
                    from unnest(v_events) as e;
                return;
            end if;
        elsif found then
            perform set_config('sluice.batch_cursor', i_batch_id::text, false);
        end if;
    end if;
    if i_extra_where is not null then
        v_query := format('select * from (%s) as event where %s order by ev_id', v_query, i_extra_where);
    end if;
    execute format('declare %I no scroll cursor for %s', i_cursor_name, v_query);
    if i_quick_limit > 0 then
        return query execute format('fetch %s from %I', i_quick_limit, i_cursor_name);
    end if;
end;
$$;

comment on function pgq.get_batch_cursor(bigint, text, integer, text) is
    'Open a cursor over the events of an open batch that satisfy a condition, by ev_id; returns the first i_quick_limit rows.';
revoke execute on function pgq.get_batch_cursor(bigint, text, integer, text) from public;
grant execute on function pgq.get_batch_cursor(bigint, text, integer, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

create or replace function pgq.get_batch_cursor(
    i_batch_id bigint, i_cursor_name text, i_quick_limit integer,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry integer,
    out ev_type text, out ev_data text,
    out ev_extra1 text, out ev_extra2 text, out ev_extra3 text, out ev_extra4 text
)
returns setof record
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from pgq.get_batch_cursor(i_batch_id, i_cursor_name, i_quick_limit, null);
$$;

comment on function pgq.get_batch_cursor(bigint, text, integer) is
    'Open a cursor over the events of an open batch, by ev_id; returns the first i_quick_limit rows.';
revoke execute on function pgq.get_batch_cursor(bigint, text, integer) from public;
grant execute on function pgq.get_batch_cursor(bigint, text, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
