-- What a group's messages have in common, as a number. A hash and not the text: an entry of an index may not exceed 2,704
-- bytes, and a long group must not make a send fail. Two groups of one hash, one pair in 2^64, are served as one, in order.
create or replace function pgmq._fifo_key_sql(alias text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format('hashtextextended(coalesce(%I.headers ->> ''x-pgmq-group'', ''_default_fifo_group''), 0)', alias);
$$;

comment on function pgmq._fifo_key_sql(text) is
    'The expression of a message''s group, as the FIFO indexes have it; alias names its table in the query.';
revoke execute on function pgmq._fifo_key_sql(text) from public;
grant execute on function pgmq._fifo_key_sql(text) to sluice_admin, sluice_reader;
