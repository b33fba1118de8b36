create or replace function pgq._pinned_bytes(
    i_queue_id integer, i_segments integer[], out consumer_name text, out bytes bigint
)
returns setof record
language sql
set search_path = pg_catalog, pg_temp
as $$
    select c.name, sum(pg_total_relation_size(format('pgq.event_%s_%s', i_queue_id, s.number)::regclass))::bigint
    from unnest(i_segments) as s (number)
    cross join lateral pgq._segment_use(i_queue_id, s.number) as used
    cross join lateral unnest(used.consumers) as c (name)
    group by c.name;
$$;

comment on function pgq._pinned_bytes(integer, integer[]) is
    'Return the consumers that need some of a log''s segments, with the size of these in bytes.';
revoke execute on function pgq._pinned_bytes(integer, integer[]) from public;
grant execute on function pgq._pinned_bytes(integer, integer[]) to pgq_admin, sluice_admin;
