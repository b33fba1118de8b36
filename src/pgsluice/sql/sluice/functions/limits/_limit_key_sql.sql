-- Of a message without the header it is null: no key, so no order and no limit of its key. A hash and not the text, as
-- in pgmq._fifo_key_sql: two keys of one hash, one pair in 2^64, are served as one.
create or replace function sluice._limit_key_sql(alias text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format('hashtextextended(%I.headers ->> ''x-pgmq-group'', 0)', alias);
$$;

comment on function sluice._limit_key_sql(text) is
    'The expression of a message''s key, as the indexes of queues with limits have it; alias names its table in the query.';
revoke execute on function sluice._limit_key_sql(text) from public;
grant execute on function sluice._limit_key_sql(text) to sluice_admin, sluice_monitor, sluice_reader;
