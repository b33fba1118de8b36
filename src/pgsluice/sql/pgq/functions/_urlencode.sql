create or replace function pgq._urlencode(content text)
returns text
language plpgsql
stable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Most need nothing.
    if content !~ '[^A-Za-z0-9_.-]' then
        return content;
    end if;
    -- Runs of bytes that need it become hexadecimal at once, not one by one. A space is written as +: no literal % is
    -- left that could be taken for one.
    return (
        select replace(
            string_agg(
                run.pair[1] || regexp_replace(
                    encode(convert_to(run.pair[2], getdatabaseencoding()), 'hex'), '(..)', '%\1', 'g'
                ),
                '' order by run.position
            ),
            '%20', '+'
        )
        from regexp_matches(content, '([A-Za-z0-9_.-]*)([^A-Za-z0-9_.-]*)', 'g') with ordinality as run (pair, position)
    );
end;
$$;

comment on function pgq._urlencode(text) is
    'The text as a name or a value of application/x-www-form-urlencoded, hexadecimal digits in lower case.';
revoke execute on function pgq._urlencode(text) from public;
grant execute on function pgq._urlencode(text) to public;
