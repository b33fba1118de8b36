-- As Vixie's cron: if day of month and day of week are both restricted, either matches. A field that starts with a star is
-- not restricted.
create or replace function sluice._parse_cron(i_cron text)
returns sluice.cron
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_text text := lower(btrim(regexp_replace(i_cron, E'\\s+', ' ', 'g')) collate "C");
    v_fields text[];
    v_days text[];
    v_cron sluice.cron;
    -- Parsing takes 0.1 ms for each element of a list, at each slot.
    v_bytes_max constant integer := 1024;
begin
    if octet_length(i_cron) > v_bytes_max then
        raise exception using
            errcode = 'RS002',
            message = format('the cron expression has %s bytes', octet_length(i_cron)),
            hint = format('use at most %s bytes; ranges are shorter than lists', v_bytes_max);
    end if;
    v_text := case v_text
        when '@hourly' then '0 * * * *'
        when '@daily' then '0 0 * * *'
        when '@midnight' then '0 0 * * *'
        when '@weekly' then '0 0 * * 0'
        when '@monthly' then '0 0 1 * *'
        when '@yearly' then '0 0 1 1 *'
        when '@annually' then '0 0 1 1 *'
        else v_text
    end;
    v_fields := string_to_array(v_text, ' ');
    if cardinality(v_fields) <> 5 then
        raise exception using
            errcode = 'RS002',
            message = format('%L is not a valid cron expression', i_cron),
            detail = format('It needs five fields and has %s.', cardinality(v_fields)),
            hint = 'pass minute, hour, day of month, month and day of week, as in ''30 3 * * mon-fri'', or @hourly, @daily, @weekly, @monthly or @yearly';
    end if;

    v_cron.minutes := sluice._cron_field(i_cron, 'minute', v_fields[1], 0, 59, '{}'::text[]);
    v_cron.hours := sluice._cron_field(i_cron, 'hour', v_fields[2], 0, 23, '{}'::text[]);
    -- Without the L, which is not a number.
    v_days := array_remove(string_to_array(v_fields[3], ','), 'l');
    v_cron.is_last_day := 'l' = any (string_to_array(v_fields[3], ','));
    v_cron.days := '{}';
    if cardinality(v_days) > 0 then
        v_cron.days := sluice._cron_field(i_cron, 'day of month', array_to_string(v_days, ','), 1, 31, '{}'::text[]);
    end if;
    v_cron.months := sluice._cron_field(
        i_cron, 'month', v_fields[4], 1, 12, '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'::text[]
    );
    v_cron.weekdays := sluice._cron_field(i_cron, 'day of week', v_fields[5], 0, 7, '{sun,mon,tue,wed,thu,fri,sat}'::text[]);
    v_cron.is_either := v_fields[3] not like '*%' and v_fields[5] not like '*%';
    return v_cron;
end;
$$;

comment on function sluice._parse_cron(text) is
    'Return the values of the five fields of a cron expression; raise an error that names the invalid field and its allowed values.';
revoke execute on function sluice._parse_cron(text) from public;
grant execute on function sluice._parse_cron(text) to sluice_admin;
