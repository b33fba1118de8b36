create or replace function pgq._event_columns_sql(i_columns text[])
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    -- xid8 is unknown to most clients: its number is a bigint.
    select string_agg(
        case
            when k.name = 'ev_txid' then 'event.ev_txid::pg_catalog.text::pg_catalog.int8 as ev_txid'
            else format('event.%I', k.name)
        end,
        ', ' order by k.position
    )
    from unnest(i_columns) with ordinality as k (name, position);
$$;

comment on function pgq._event_columns_sql(text[]) is
    'Columns of events as a select list, in types that clients know; the table is called event.';
revoke execute on function pgq._event_columns_sql(text[]) from public;
grant execute on function pgq._event_columns_sql(text[]) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
