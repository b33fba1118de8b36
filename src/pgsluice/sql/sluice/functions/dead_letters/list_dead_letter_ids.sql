-- Ids only: payloads may be large, and those who redrive or purge need none.
create or replace function sluice.list_dead_letter_ids(
    queue_name text,
    consumer_name text default null,
    filter jsonb default '{}',
    after_dead_letter_id bigint default null,
    qty integer default 1000
)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
-- Without statistics, the planner would sort all dead letters of the queue.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_filter constant sluice.dead_letter_filter := sluice._dead_letter_filter(filter);
begin
    return query execute format(
        'select m.dead_letter_id
         from sluice.%I as m
         where ($8 is null or m.dead_letter_id > $8)
           and %s
         order by %s, m.dead_letter_id
         limit $9',
        sluice._dead_letter_table(consumer_name),
        sluice._dead_letter_filter_sql(consumer_name),
        case when consumer_name is null then 'lower(m.queue_name)' else 'm.queue_name, m.consumer_name' end
    )
    using v_filter.message, v_filter.headers, v_filter.since, v_filter.until, queue_name, consumer_name, v_filter,
        after_dead_letter_id, qty;
end;
$$;

comment on function sluice.list_dead_letter_ids(text, text, jsonb, bigint, integer) is
    'Return the ids of the dead letters that sluice.browse_dead_letters returns.';
revoke execute on function sluice.list_dead_letter_ids(text, text, jsonb, bigint, integer) from public;
grant execute on function sluice.list_dead_letter_ids(text, text, jsonb, bigint, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
