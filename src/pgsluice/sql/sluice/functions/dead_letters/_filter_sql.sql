/*
 * Used in statements that are planned with their parameter values, so the planner drops null and empty conditions.
 *
 * A text occurs in a payload as it was typed, or with the escapes of JSON, which a quoted text or a line break has there.
 */
create or replace function sluice._filter_sql(time_column text, matching text, of_events boolean)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        $condition$($1 is null or $1 = '{}' or m.message @> $1)
        and ($2 is null or $2 = '{}' or m.headers @> $2)
        and ($3 is null or m.%1$I >= $3)
        and ($4 is null or m.%1$I < $4)
        and (
            %2$s is null
            or case when sluice._json_or_null(%2$s) is not null then %3$s else m.msg_id::text = %2$s or %4$s = %2$s or %5$s end
        )$condition$,
        time_column,
        coalesce(matching, 'null::text'),
        string_agg(
            format(
                case when of_events then 'sluice._json_or_null(m.%I) @> sluice._json_or_null(%s)' else 'm.%I @> sluice._json_or_null(%s)' end,
                c.name, coalesce(matching, 'null::text')
            ),
            ' or '
        ),
        case when of_events then 'm.key' else 'm.headers ->> ''x-pgmq-group''' end,
        string_agg(
            format(
                $occurs$strpos(lower(m.%1$I::text), lower(%2$s)) > 0
                or (%3$s <> %2$s and strpos(lower(m.%1$I::text), lower(%3$s)) > 0)$occurs$,
                c.name, coalesce(matching, 'null::text'), format('substr(left(to_json(%s)::text, -1), 2)', coalesce(matching, 'null::text'))
            ),
            ' or '
        )
    )
    from unnest(
        case when of_events
            then array['ev_type', 'ev_data', 'ev_extra1', 'ev_extra2', 'ev_extra3', 'ev_extra4']
            else array['message', 'headers']
        end
    ) as c (name);
$$;

comment on function sluice._filter_sql(text, text, boolean) is
    'Return a condition on m, a message or an event: message contains $1, headers contain $2, time from $3 (inclusive) to $4 (exclusive), and the expression matching, which may be null, matches; null means no condition.';
revoke execute on function sluice._filter_sql(text, text, boolean) from public;
grant execute on function sluice._filter_sql(text, text, boolean) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
