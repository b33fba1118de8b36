-- Ids and times as one kind of number, so that there is one algorithm for both: an id is itself, a time the microseconds
-- since 1970. No id and no time reaches the ends of bigint, which stand for what is open.
create or replace function sluice._partition_position(bound text, is_time boolean)
returns bigint
language sql
stable
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
    select case
        when bound in ('MINVALUE', '-infinity') then -9223372036854775808
        when bound in ('MAXVALUE', 'infinity') then 9223372036854775807
        when is_time then (extract(epoch from bound::timestamptz) * 1000000)::bigint
        else bound::bigint
    end;
$$;

comment on function sluice._partition_position(text, boolean) is
    'An id or a time, or a bound of a partition as the catalog shows it, as a number.';
revoke execute on function sluice._partition_position(text, boolean) from public;
grant execute on function sluice._partition_position(text, boolean) to sluice_admin, sluice_reader, sluice_monitor;
