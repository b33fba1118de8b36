-- Null for a message without the header: it has no key, so no order and no key limit. A hash instead of the text, as in
-- pgmq._fifo_key_sql: two keys with equal hashes, one pair in 2^64, are treated as one.
create or replace function sluice._limit_key_sql(alias text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format('hashtextextended(%I.headers ->> ''x-pgmq-group'', 0)', alias);
$$;

comment on function sluice._limit_key_sql(text) is
    'Return the expression of a message''s key, as in the indexes of queues with limits; alias is its table in the query.';
revoke execute on function sluice._limit_key_sql(text) from public;
grant execute on function sluice._limit_key_sql(text) to sluice_admin, sluice_monitor, sluice_reader;
