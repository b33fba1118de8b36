create or replace function sluice._dead_letter_filter(filter jsonb)
returns sluice.dead_letter_filter
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_names constant text[] := array[
        'dead_letter_ids', 'msg_ids', 'message', 'headers', 'ev_type', 'reason', 'error_type', 'error', 'matching', 'since', 'until'
    ];
    v_wrong text;
begin
    if jsonb_typeof(filter) is distinct from 'object' then
        raise exception using
            errcode = '22023',
            message = format('the filter of dead letters is %s', coalesce(filter::text, 'null')),
            hint = 'pass a JSON object, {} for all';
    end if;
    select o.name into v_wrong
    from jsonb_object_keys(filter) as o (name)
    where o.name <> all (v_names)
    order by o.name
    limit 1;
    if found then
        raise exception using
            errcode = '22023',
            message = format('dead letters have no filter %L', v_wrong),
            hint = format('there are: %s', array_to_string(v_names, ', '));
    end if;
    return jsonb_populate_record(null::sluice.dead_letter_filter, filter);
end;
$$;

comment on function sluice._dead_letter_filter(jsonb) is
    'Return a filter of dead letters as a row; raise an error if it has an unknown member.';
revoke execute on function sluice._dead_letter_filter(jsonb) from public;
grant execute on function sluice._dead_letter_filter(jsonb) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
