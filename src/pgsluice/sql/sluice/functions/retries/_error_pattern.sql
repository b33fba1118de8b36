-- Ids, times, counts and values differ between failures of one kind; names of tables, which PostgreSQL writes in double quotes,
-- do not. An apostrophe within a word opens no quotes.
create or replace function sluice._error_pattern(i_error text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select left(
        regexp_replace(
            regexp_replace(
                left(split_part(i_error, e'\n', 1), 2000),
                '(^|[^[:alnum:]])''[^'']*''(?![[:alnum:]])|([:=] ?)"[^"]*"', E'\\1\\2#', 'g'
            ),
            '[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|0x[0-9a-fA-F]+|[0-9]+', '#', 'g'
        ),
        200
    );
$$;

comment on function sluice._error_pattern(text) is
    'Return the first line of an error with # for numbers, UUIDs and quoted values, to group errors; names in double quotes stay.';
revoke execute on function sluice._error_pattern(text) from public;
grant execute on function sluice._error_pattern(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
