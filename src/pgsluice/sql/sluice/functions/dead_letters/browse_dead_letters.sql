-- Without a filter it reads what it returns; with one, also what it passes by. A dropped queue leaves its dead letters.
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
    'Dead letters of a queue after a dead_letter_id, lowest first. Time: dead_at.';
revoke execute on function sluice.browse_dead_letters(text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text, text) from public;
grant execute on function sluice.browse_dead_letters(text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text, text) to sluice_admin, sluice_reader;
