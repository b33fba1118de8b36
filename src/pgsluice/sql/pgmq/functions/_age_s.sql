-- Users can store any time in a queue's table: an infinite one has no age, and one centuries away overflows an integer.
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
    'Return the age of a message in seconds; null for an infinite time.';
revoke execute on function pgmq._age_s(timestamptz) from public;
grant execute on function pgmq._age_s(timestamptz) to sluice_admin, sluice_reader, sluice_monitor;
