-- i_extra_where is SQL from the caller. It runs with the caller's rights, as this whole function does, and with this
-- function's search_path: names outside of pg_catalog must be qualified.
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
begin
    if i_batch_id is null or i_cursor_name is null or i_quick_limit is null then
        return;
    end if;
    v_query := pgq.batch_event_sql(i_batch_id);
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
