create or replace function sluice._cron_number(i_word text, i_least integer, i_names text[])
returns integer
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when i_word ~ '^[0-9]+$' then i_word::integer
        else array_position(i_names, i_word) - 1 + i_least
    end;
$$;

comment on function sluice._cron_number(text, integer, text[]) is
    'Return the number of a word of a cron expression: itself, or the position of a name; null if it is neither.';
revoke execute on function sluice._cron_number(text, integer, text[]) from public;
grant execute on function sluice._cron_number(text, integer, text[]) to sluice_admin;
