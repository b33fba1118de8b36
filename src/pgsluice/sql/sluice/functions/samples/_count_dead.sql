-- Security definer: a monitor may count dead letters, but may not read them. A sequential scan would also read the rows
-- of other queues and those that vacuum has not removed.
create or replace function sluice._count_dead(queue_name text)
returns bigint
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
    select count(*)
    from (
        select
        from sluice.dead_letter_message as d
        where lower(d.queue_name) = lower(_count_dead.queue_name)
        limit 10000
    ) as counted;
$$;

comment on function sluice._count_dead(text) is 'Return the number of dead letters of a queue, at most 10,000.';
revoke execute on function sluice._count_dead(text) from public;
grant execute on function sluice._count_dead(text) to sluice_admin, sluice_reader, sluice_monitor;
