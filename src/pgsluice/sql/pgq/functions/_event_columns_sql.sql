-- Called for every batch, and in PL/pgSQL because its plan is cached there.
create or replace function pgq._event_columns_sql(i_columns text[])
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Most clients do not know xid8: it is returned as bigint.
    return (
        select string_agg(
            case
                when k.name = 'ev_txid' then 'event.ev_txid::pg_catalog.text::pg_catalog.int8 as ev_txid'
                else format('event.%I', k.name)
            end,
            ', ' order by k.position
        )
        from unnest(i_columns) with ordinality as k (name, position)
    );
end;
$$;

comment on function pgq._event_columns_sql(text[]) is
    'Return the select list of event columns, in types that clients know; the table alias is event.';
revoke execute on function pgq._event_columns_sql(text[]) from public;
grant execute on function pgq._event_columns_sql(text[]) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
