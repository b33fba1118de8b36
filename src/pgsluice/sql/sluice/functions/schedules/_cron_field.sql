-- One of the five fields. Weekdays run to 7, which is Sunday like 0, so that 5-7 and fri-sun are valid.
create or replace function sluice._cron_field(
    i_cron text, i_field text, i_text text, i_least integer, i_most integer, i_names text[]
)
returns integer[]
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_item text;
    v_parts text[]; -- the star; from; to; step
    v_numbers integer[]; -- of from and to: a number itself, or the position of a name
    v_first integer;
    v_last integer;
    v_step integer;
    v_values integer[] := '{}';
begin
    foreach v_item in array string_to_array(i_text, ',') loop
        v_parts := regexp_match(v_item, E'^(?:(\\*)|([a-z]+|[0-9]{1,2})(?:-([a-z]+|[0-9]{1,2}))?)(?:/([0-9]{1,2}))?$');
        v_numbers := array(
            select case when w.word ~ '^[0-9]+$' then w.word::integer else array_position(i_names, w.word) - 1 + i_least end
            from unnest(v_parts[2:3]) with ordinality as w (word, number)
            order by w.number
        );
        v_first := case when v_parts[1] is null then v_numbers[1] else i_least end;
        v_last := case
            when v_parts[1] is not null then i_most
            when v_parts[3] is null then v_first
            else v_numbers[2]
        end;
        if i_field = 'day of week' and v_last = 0 and v_first > 0 then
            v_last := 7;
        end if;
        v_step := coalesce(v_parts[4]::integer, 1);
        if v_first >= i_least
            and v_last between v_first and i_most
            and v_step between 1 and i_most - i_least
            -- Cron implementations disagree about 5/15.
            and (v_parts[4] is null or v_parts[1] is not null or v_parts[3] is not null)
        then
            v_values := v_values || array(select generate_series(v_first, v_last, v_step));
            continue;
        end if;
        raise exception using
            errcode = 'RS002',
            message = format('%L is not a valid %s of a schedule', v_item, i_field),
            detail = format('In the cron expression %L.', i_cron),
            hint = format(
                'the %s is %s to %s%s: use *, a number, a range 1-5, a list 1,5, or steps */2 and 1-5/2%s', i_field, i_least, i_most,
                case when cardinality(i_names) > 0 then format(' or %s to %s', i_names[1], i_names[cardinality(i_names)]) end,
                case i_field when 'day of month' then ', or L for the last day' when 'day of week' then '; 0 and 7 are Sunday' end
            );
    end loop;
    return array(select distinct case when i_field = 'day of week' then v % 7 else v end from unnest(v_values) as v order by 1);
end;
$$;

comment on function sluice._cron_field(text, text, text, integer, integer, text[]) is
    'Return the values of a field of a cron expression in order; raise an error with the allowed values if it is invalid.';
revoke execute on function sluice._cron_field(text, text, text, integer, integer, text[]) from public;
grant execute on function sluice._cron_field(text, text, text, integer, integer, text[]) to sluice_admin;
