-- Reads the newest dead letters of the queue only, so that its cost is bounded. Groups that differ in no pattern are one.
create or replace function sluice.group_dead_letters(queue_name text, qty integer default 10000)
returns table (
    reason text, error_type text, error text, letters bigint, first_dead_at timestamptz, last_dead_at timestamptz,
    example_dead_letter_id bigint, example_error text
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return query execute
        'with newest as (
            select d.dead_letter_id, d.reason, coalesce(d.error_type, '''') as error_type,
                coalesce(sluice._error_pattern(d.error), '''') as error, d.dead_at
            from sluice.dead_letter as d
            where lower(d.queue_name) = lower($1)
            order by lower(d.queue_name) desc, d.dead_letter_id desc
            limit $2
         ),
         found as (
            select n.reason, n.error_type, n.error, count(*) as letters, min(n.dead_at) as first_dead_at, max(n.dead_at) as last_dead_at,
                max(n.dead_letter_id) as example_dead_letter_id
            from newest as n
            group by n.reason, n.error_type, n.error
         )
         select f.*, left(split_part(d.error, e''\n'', 1), 1000)
         from found as f
         left join sluice.dead_letter as d on d.dead_letter_id = f.example_dead_letter_id
         order by f.letters desc, f.example_dead_letter_id desc'
    using queue_name, qty;
end;
$$;

comment on function sluice.group_dead_letters(text, integer) is
    'Return the newest dead letters of a queue, at most qty, grouped by reason, error type and first line of the error with # for numbers, UUIDs and quoted values, most frequent first, with the newest as an example; empty texts stand for no error type and no error.';
revoke execute on function sluice.group_dead_letters(text, integer) from public;
grant execute on function sluice.group_dead_letters(text, integer) to sluice_admin, sluice_reader;
