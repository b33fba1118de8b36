create or replace function sluice._explain_queue_next(i_queue_name text, i_counts jsonb)
returns table (at timestamptz, fact text, detail jsonb)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select n.at, n.fact, '{}'::jsonb
    from jsonb_to_record(i_counts) as c (visible bigint, lease_until timestamptz, due_at timestamptz)
    cross join lateral (
        values
            (1, null, format('The next claim from queue %s delivers its first visible messages', i_queue_name), c.visible > 0),
            (2, c.lease_until, 'The next lease expires, unless its worker settles or renews it', c.lease_until is not null),
            (3, c.due_at, 'The next delayed message or retry becomes visible', c.due_at < 'infinity')
    ) as n (position, at, fact, applies)
    where n.applies
    order by n.position;
$$;

comment on function sluice._explain_queue_next(text, jsonb) is
    'Return the next times at which something changes in a queue.';
revoke execute on function sluice._explain_queue_next(text, jsonb) from public;
grant execute on function sluice._explain_queue_next(text, jsonb) to sluice_admin;
