-- Reads the newest dead letters only, so that its cost is bounded. Groups that differ in no pattern are one.
create or replace function sluice.group_dead_letters(queue_name text, consumer_name text default null, qty integer default 10000)
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
    return query execute format(
        'with newest as (
            select d.dead_letter_id, d.reason, coalesce(d.error_type, '''') as error_type,
                coalesce(sluice._error_pattern(d.error), '''') as error, d.dead_at
            from sluice.%1$I as d
            where %2$s
            limit $3
         ),
         found as (
            select n.reason, n.error_type, n.error, count(*) as letters, min(n.dead_at) as first_dead_at, max(n.dead_at) as last_dead_at,
                max(n.dead_letter_id) as example_dead_letter_id
            from newest as n
            group by n.reason, n.error_type, n.error
         )
         select f.*, left(split_part(d.error, e''\n'', 1), 1000)
         from found as f
         left join sluice.%1$I as d on d.dead_letter_id = f.example_dead_letter_id
         order by f.letters desc, f.example_dead_letter_id desc',
        sluice._dead_letter_table(consumer_name),
        case when consumer_name is null
            then 'lower(d.queue_name) = lower($1) order by lower(d.queue_name) desc, d.dead_letter_id desc'
            else 'd.queue_name = $1 and d.consumer_name = $2
                  order by d.queue_name desc, d.consumer_name desc, d.dead_letter_id desc'
        end
    )
    using queue_name, consumer_name, qty;
end;
$$;

comment on function sluice.group_dead_letters(text, text, integer) is
    'Return the newest dead letters of a queue, or of a share group or consumer of a log, at most qty, grouped by reason, error type and first line of the error with # for numbers, UUIDs and quoted values, most frequent first, with the newest as an example; empty texts stand for no error type and no error.';
revoke execute on function sluice.group_dead_letters(text, text, integer) from public;
grant execute on function sluice.group_dead_letters(text, text, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
