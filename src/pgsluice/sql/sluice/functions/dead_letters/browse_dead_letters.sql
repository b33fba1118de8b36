-- Without a filter, it reads only the rows it returns; with one, also those it skips.
-- Dropping a queue keeps its dead letters.
create or replace function sluice.browse_dead_letters(
    queue_name text,
    after_dead_letter_id bigint default null,
    qty integer default 100,
    conditional jsonb default '{}',
    conditional_headers jsonb default '{}',
    since timestamptz default null,
    until timestamptz default null,
    reason text default null,
    error_type text default null
)
returns setof sluice.dead_letter
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'select m.*
         from sluice.dead_letter as m
         where ($8 is null or m.dead_letter_id > $8)
           and %s
         order by m.dead_letter_id
         limit $9',
        sluice._dead_letter_filter_sql()
    )
    using conditional, conditional_headers, since, until, queue_name, reason, error_type, after_dead_letter_id, qty;
end;
$$;

comment on function sluice.browse_dead_letters(text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text, text) is
    'Return dead letters of a queue after a dead_letter_id, lowest first; since and until apply to dead_at.';
revoke execute on function sluice.browse_dead_letters(text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text, text) from public;
grant execute on function sluice.browse_dead_letters(text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text, text) to sluice_admin, sluice_reader;
