-- Names and keys are data of users: a command that is copied to a shell must not run a part of them.
create or replace function sluice._shell_word(i_text text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when i_text ~ '^[A-Za-z0-9_.:/@%+,][A-Za-z0-9_.:/@%+,-]*$' then i_text
        else '''' || replace(i_text, '''', '''"''"''') || ''''
    end;
$$;

comment on function sluice._shell_word(text) is
    'Return a text as one word of a POSIX shell, quoted if needed.';
revoke execute on function sluice._shell_word(text) from public;
grant execute on function sluice._shell_word(text) to pgq_admin, sluice_admin;
