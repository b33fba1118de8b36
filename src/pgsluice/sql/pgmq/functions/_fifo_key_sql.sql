-- Hashes the group: an index entry is limited to 2,704 bytes, and a long group name must not make a send fail. Two
-- groups with the same hash, one pair in 2^64, are read in order as one group.
create or replace function pgmq._fifo_key_sql(alias text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format('hashtextextended(coalesce(%I.headers ->> ''x-pgmq-group'', ''_default_fifo_group''), 0)', alias);
$$;

comment on function pgmq._fifo_key_sql(text) is
    'The SQL expression of a message''s group, as in the FIFO indexes; alias names its table in the query.';
revoke execute on function pgmq._fifo_key_sql(text) from public;
grant execute on function pgmq._fifo_key_sql(text) to sluice_admin, sluice_reader;
