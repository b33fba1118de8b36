-- The text of a row has each column as its type's output function writes it, which a cast does not always give, and it
-- needs no query per table: (1,"a b",,"say ""x""") is 1, a b, null, say "x".
create or replace function pgq._trigger_contents(written_row text)
returns text[]
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select case
            when field.content[1] = '' then null
            when starts_with(field.content[1], '"') then
                replace(replace(substr(field.content[1], 2, length(field.content[1]) - 2), '""', '"'), E'\\\\', E'\\')
            else field.content[1]
        end
        from regexp_matches(substr(written_row, 2, length(written_row) - 2) || ',', '("(?:[^"]|"")*"|[^",]*),', 'g')
            with ordinality as field (content, position)
        order by field.position
    );
end;
$$;

comment on function pgq._trigger_contents(text) is
    'Return the columns of a row in its text form, nulls as nulls.';
revoke execute on function pgq._trigger_contents(text) from public;
grant execute on function pgq._trigger_contents(text) to public;
