-- Without a filter, it reads only the rows it returns; with one, also those it skips.
-- Dropping a queue, log, share group or consumer keeps its dead letters.
create or replace function sluice.browse_dead_letters(
    queue_name text,
    consumer_name text default null,
    filter jsonb default '{}',
    after_dead_letter_id bigint default null,
    qty integer default 100
)
returns setof sluice.dead_letter
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter constant sluice.dead_letter_filter := sluice._dead_letter_filter(filter);
begin
    return query execute format(
        'select m.*
         from sluice.%I as m
         where ($8 is null or m.dead_letter_id > $8)
           and %s
         order by m.dead_letter_id
         limit $9',
        sluice._dead_letter_table(consumer_name), sluice._dead_letter_filter_sql(consumer_name)
    )
    using v_filter.message, v_filter.headers, v_filter.since, v_filter.until, queue_name, consumer_name, v_filter,
        after_dead_letter_id, qty;
end;
$$;

comment on function sluice.browse_dead_letters(text, text, jsonb, bigint, integer) is
    'Return dead letters of a queue, or of a share group or consumer of a log, after a dead_letter_id, lowest first. Filter: an object with any of dead_letter_ids, msg_ids, message and headers (contained), ev_type, reason, error_type, error (the whole error, or its first line with # for numbers, UUIDs and quoted values; empty: none), since and until (dead_at).';
revoke execute on function sluice.browse_dead_letters(text, text, jsonb, bigint, integer) from public;
grant execute on function sluice.browse_dead_letters(text, text, jsonb, bigint, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
