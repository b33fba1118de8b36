-- Ids only: payloads may be large, and those who redrive or purge need none.
create or replace function sluice.list_dead_letter_ids(
    queue_name text,
    after_dead_letter_id bigint default null,
    qty integer default 1000,
    since timestamptz default null,
    until timestamptz default null,
    reason text default null,
    error_type text default null,
    error text default null
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
begin
    return query execute format(
        'select m.dead_letter_id
         from sluice.dead_letter as m
         where ($8 is null or m.dead_letter_id > $8)
           -- Cheaper than a pattern, which does not change the text before its first #.
           and ($10 is null or starts_with(coalesce(m.error, ''''), split_part($10, ''#'', 1)))
           and ($10 is null or coalesce(m.error, '''') = $10 or coalesce(sluice._error_pattern(m.error), '''') = $10)
           and %s
         order by lower(m.queue_name), m.dead_letter_id
         limit $9',
        sluice._dead_letter_filter_sql()
    )
    using null::jsonb, null::jsonb, since, until, queue_name, reason, error_type, after_dead_letter_id, qty, error;
end;
$$;

comment on function sluice.list_dead_letter_ids(text, bigint, integer, timestamptz, timestamptz, text, text, text) is
    'Return ids of dead letters of a queue after a dead_letter_id, lowest first, at most qty; since and until apply to dead_at, and error is the whole error or its first line with # for numbers and UUIDs, empty for none.';
revoke execute on function sluice.list_dead_letter_ids(text, bigint, integer, timestamptz, timestamptz, text, text, text) from public;
grant execute on function sluice.list_dead_letter_ids(text, bigint, integer, timestamptz, timestamptz, text, text, text) to sluice_admin, sluice_reader;
