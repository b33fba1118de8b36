create or replace function pgmq.format_table_name(queue_name text, prefix text)
returns text
language plpgsql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if queue_name ~ '\$|;|--|''' then
        raise exception using
            message = 'queue name contains invalid characters: $, ;, --, or \''',
            detail = format('The name is %L.', queue_name),
            hint = 'use letters, digits and underscores';
    end if;
    return lower(prefix || '_' || queue_name);
end;
$$;

comment on function pgmq.format_table_name(text, text) is
    'Return the table name of a queue: prefix q for the queue, a for its archive; folded to lower case.';
revoke execute on function pgmq.format_table_name(text, text) from public;
grant execute on function pgmq.format_table_name(text, text) to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
