create or replace function sluice._dead_letter_filter_sql(consumer_name text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        $condition$%s
        and %s
        and (($7).dead_letter_ids is null or m.dead_letter_id = any (($7).dead_letter_ids))
        and (($7).msg_ids is null or m.msg_id = any (($7).msg_ids))
        and (($7).ev_type is null or m.ev_type = ($7).ev_type)
        and (($7).reason is null or m.reason = ($7).reason)
        and (($7).error_type is null or coalesce(m.error_type, '') = ($7).error_type)
        -- Cheaper than a pattern, which does not change the text before its first #.
        and (($7).error is null or starts_with(coalesce(m.error, ''), split_part(($7).error, '#', 1)))
        and (
            ($7).error is null
            or coalesce(m.error, '') = ($7).error
            or coalesce(sluice._error_pattern(m.error), '') = ($7).error
        )$condition$,
        case when consumer_name is null
            then 'lower(m.queue_name) = lower($5)'
            else 'm.queue_name = $5 and m.consumer_name = $6'
        end,
        sluice._filter_sql('dead_at'::text, '($7).matching'::text, consumer_name is not null)
    );
$$;

comment on function sluice._dead_letter_filter_sql(text) is
    'Return a condition on dead letter m: sluice._filter_sql plus queue or log $5, share group or consumer $6 and the other members of filter $7.';
revoke execute on function sluice._dead_letter_filter_sql(text) from public;
grant execute on function sluice._dead_letter_filter_sql(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
