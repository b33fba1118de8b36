create or replace function sluice._explain_queue_state(i_queue_name text, i_counts jsonb)
returns table (at timestamptz, fact text, detail jsonb)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select s.at, s.fact, s.detail
    from jsonb_to_record(i_counts) as c (
        length bigint, visible bigint, ready_since timestamptz, due_since timestamptz,
        in_flight bigint, waiting bigint, delayed bigint, at_least boolean
    )
    cross join lateral (
        values
            (
                1, null::timestamptz,
                case
                    when c.length = 0 then format('Queue %s is empty', i_queue_name)
                    else format('Queue %s has %s, %s visible', i_queue_name, sluice._counted(c.length, 'message'), c.visible)
                end,
                jsonb_build_object('queue_name', i_queue_name, 'length', c.length, 'visible', c.visible),
                true
            ),
            (
                2, least(c.ready_since, c.due_since), 'The oldest visible message became visible', '{}'::jsonb,
                num_nonnulls(c.ready_since, c.due_since) > 0
            ),
            (
                3, null,
                format(
                    '%s in flight, %s waiting for a retry or the delay of a release, %s delayed%s', c.in_flight, c.waiting, c.delayed,
                    case when c.at_least then ', and more' end
                ),
                jsonb_build_object('in_flight', c.in_flight, 'waiting', c.waiting, 'delayed', c.delayed, 'at_least', c.at_least),
                c.in_flight + c.waiting + c.delayed > 0
            )
    ) as s (position, at, fact, detail, applies)
    where s.applies
    order by s.position;
$$;

comment on function sluice._explain_queue_state(text, jsonb) is
    'Return the sentences with the numbers of messages of a queue.';
revoke execute on function sluice._explain_queue_state(text, jsonb) from public;
grant execute on function sluice._explain_queue_state(text, jsonb) to sluice_admin;
