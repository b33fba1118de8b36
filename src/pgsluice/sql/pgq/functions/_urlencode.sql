create or replace function pgq._urlencode(content text)
returns text
language plpgsql
stable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Most texts need no encoding.
    if content !~ '[^A-Za-z0-9_.-]' then
        return content;
    end if;
    -- Each run of bytes is converted in one step. A space becomes +, so no literal % is left that could be mistaken for
    -- an escape.
    return (
        select replace(
            string_agg(
                run.pair[1] || regexp_replace(
                    encode(convert_to(run.pair[2], getdatabaseencoding()), 'hex'), '(..)', E'%\\1', 'g'
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
    'Encode a text for application/x-www-form-urlencoded, with lower-case hexadecimal digits.';
revoke execute on function pgq._urlencode(text) from public;
grant execute on function pgq._urlencode(text) to public;
