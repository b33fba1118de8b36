-- Ids and times as one kind of number, for one algorithm: an id is itself, a time the microseconds since 1970. No id and
-- no time reaches the ends of bigint, which stand for open bounds.
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
    'Return an id, a time, or a partition bound from the catalog as a number.';
revoke execute on function sluice._partition_position(text, boolean) from public;
grant execute on function sluice._partition_position(text, boolean) to sluice_admin, sluice_reader, sluice_monitor;
