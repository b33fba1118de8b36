-- A table of users holds any time: one that is infinite has no age, and one that is centuries away no age that fits.
create or replace function pgmq._age_s(since timestamptz)
returns integer
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when isfinite(since) then
            greatest(least(extract(epoch from now()) - extract(epoch from since), 2147483647), -2147483647)::integer
    end;
$$;

comment on function pgmq._age_s(timestamptz) is
    'The age of a message in seconds; null for an infinite time.';
revoke execute on function pgmq._age_s(timestamptz) from public;
grant execute on function pgmq._age_s(timestamptz) to sluice_admin, sluice_reader, sluice_monitor;
